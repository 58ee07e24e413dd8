package history

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// timeSpan is the time from the beginning of a call, or of the first call of a step, to its end, in microseconds since 1970.
type timeSpan struct{ began, ended int64 }

// timeSpans returns the time span of each call, from the first attempt to the last, by the number of the last attempt's event. Changes of
// the clock while a process runs do not matter, because the journal adds up elapsed time.
func timeSpans(past *journal.Past) map[int]timeSpan {
	type attempt struct {
		mac     string
		ordinal int
	}
	spans, first := map[int]timeSpan{}, map[attempt]int64{}
	for i := range past.Events {
		switch e := &past.Events[i]; e.Kind {
		case journal.Began, journal.Read:
			s := timeSpan{e.At, e.At}
			if e.Kind == journal.Read {
				s.began -= e.Took
			}
			id := attempt{string(e.MAC), e.Ordinal}
			if began, known := first[id]; known && e.Attempt > 0 {
				s.began = began
			}
			first[id], spans[e.N] = s.began, s
		case journal.Ended:
			s := spans[e.Of]
			s.ended = e.At
			spans[e.Of] = s
		}
	}
	return spans
}

// waveStep is a step in a wave: its calls until the run ends or is resumed.
type waveStep struct {
	timeSpan
	wave  int
	ready int64 // when the previous wave ended, in microseconds since 1970
	calls []int // the indexes of its calls in Timeline.List
}

// setWaves sets the wave of each call, and how long the call waited after it could have started: for other elements of its step, or for a
// slot. Steps that ran side by side are in one wave. A step that began after other steps had ended is in a later wave.
func (t *Timeline) setWaves(spans []timeSpan, began int64) {
	wave, ready := 0, began
	var group []*waveStep
	flush := func() {
		wave, ready = assignWaves(group, wave, ready)
		for _, s := range group {
			for _, i := range s.calls {
				t.List[i].Wave, t.List[i].Waited = s.wave, float64(max(spans[i].began-s.ready, 0))/1000
			}
		}
		group = nil
	}
	byStep := map[string]*waveStep{}
	for i := range t.List {
		c := &t.List[i]
		if c.Event != "" {
			if c.Event == Resumed {
				flush()
				byStep, ready = map[string]*waveStep{}, spans[i].began
			}
			continue
		}
		name := stepOf(c.At)
		s := byStep[name]
		if s == nil || c.Undoes { // each undo counts as a step
			s = &waveStep{timeSpan: spans[i]}
			byStep[name], group = s, append(group, s)
		}
		s.began, s.ended = min(s.began, spans[i].began), max(s.ended, spans[i].ended)
		s.calls = append(s.calls, i)
	}
	flush()
}

// assignWaves sets the wave of each step and when it could have started. The first wave follows wave, which ended at ready. It returns the
// last wave and its end.
func assignWaves(steps []*waveStep, wave int, ready int64) (int, int64) {
	byEnd := slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b *waveStep) int { return cmp.Compare(a.began, b.began) })
	slices.SortStableFunc(byEnd, func(a, b *waveStep) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.began, b.began)) })
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

// stepOf returns the number of the outermost step in the path of a step.
func stepOf(stepPath string) string {
	for i := range len(stepPath) {
		if stepPath[i] < '0' || stepPath[i] > '9' {
			return stepPath[:i]
		}
	}
	return stepPath
}
