package history

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// span is when a call, or the calls of a step, ran, in microseconds since 1970.
type span struct{ began, ended int64 }

// spansOf are the times of calls, all their attempts together, by the number of the event that tells of the last attempt. Times of one
// process do not jump.
func spansOf(past *journal.Past) map[int]span {
	type attempt struct {
		mac     string
		ordinal int
	}
	spans, first := map[int]span{}, map[attempt]int64{}
	for i := range past.Events {
		switch e := &past.Events[i]; e.Kind {
		case journal.Began, journal.Read:
			s := span{e.At, e.At}
			if e.Kind == journal.Read {
				s.began -= e.Took
			}
			of := attempt{string(e.MAC), e.Ordinal}
			if began, known := first[of]; known && e.Attempt > 0 {
				s.began = began
			}
			first[of], spans[e.N] = s.began, s
		case journal.Ended:
			s := spans[e.Of]
			s.ended = e.At
			spans[e.Of] = s
		}
	}
	return spans
}

// step is what is put into a wave: the calls of one step until the run ends or is resumed.
type step struct {
	span
	wave  int
	ready int64 // when it could have begun: all that the wave before it holds had ended
	calls []int // their places in the timeline
}

// waves says of each call in which wave it ran, and how long it waited after it could have begun: for its turn among the elements of
// its step, or for a slot. Steps that ran side by side are of one wave; one that began after others had ended is of a later one.
func (t *Timeline) waves(spans []span, began int64) {
	wave, ready := 0, began
	var group []*step
	flush := func() {
		wave, ready = layer(group, wave, ready)
		for _, s := range group {
			for _, i := range s.calls {
				t.List[i].Wave, t.List[i].Waited = s.wave, float64(max(spans[i].began-s.ready, 0))/1000
			}
		}
		group = nil
	}
	byStep := map[string]*step{}
	for i := range t.List {
		c := &t.List[i]
		if c.Event != "" {
			if c.Event == resumed {
				flush()
				byStep, ready = map[string]*step{}, spans[i].began
			}
			continue
		}
		name := stepOf(c.At)
		s := byStep[name]
		if s == nil || c.Undoes { // each undo is of its own
			s = &step{span: spans[i]}
			byStep[name], group = s, append(group, s)
		}
		s.began, s.ended = min(s.began, spans[i].began), max(s.ended, spans[i].ended)
		s.calls = append(s.calls, i)
	}
	flush()
}

// layer gives steps their waves, from the one behind wave on, which has ended at ready, and gives the last of them.
func layer(steps []*step, wave int, ready int64) (int, int64) {
	byEnd := slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b *step) int { return cmp.Compare(a.began, b.began) })
	slices.SortStableFunc(byEnd, func(a, b *step) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.began, b.began)) })
	done := 0
	for _, s := range steps {
		for ; done < len(byEnd) && byEnd[done].wave > 0 && byEnd[done].ended <= s.began; done++ {
			wave, ready = max(wave, byEnd[done].wave), max(ready, byEnd[done].ended)
		}
		s.wave, s.ready = wave+1, ready
	}
	for _, s := range byEnd[done:] {
		wave, ready = max(wave, s.wave), max(ready, s.ended)
	}
	return wave, ready
}

// stepOf is the number of the outermost step of a place.
func stepOf(place string) string {
	for i := range len(place) {
		if place[i] < '0' || place[i] > '9' {
			return place[:i]
		}
	}
	return place
}
