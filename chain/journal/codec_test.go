package journal

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"

	"github.com/onecall-mcp/onecall/fault"
)

// drawEvents returns events with random plain fields, some of them repeated.
func drawEvents(r *rand.Rand) []Event {
	words := []string{"", "read", "ended", "github.issues.list", "\xff\x00", string(make([]byte, 300))}
	for range 100 {
		words = append(words, string(rune('a'+r.IntN(26)))+string(rune(r.IntN(1<<16))))
	}
	events := make([]Event, r.IntN(50))
	for i := range events {
		e := reflect.ValueOf(&events[i]).Elem()
		for f := range e.NumField() {
			field := e.Field(f)
			if name := e.Type().Field(f).Name; r.IntN(3) == 0 || name == "Result" || name == "Blocks" || name == "Undo" || name == "Chain" ||
				name == "Args" || name == "Message" || name == "readArgs" {
				continue
			}
			switch field.Interface().(type) {
			case int, int64:
				field.SetInt(r.Int64() >> r.IntN(64) * int64(1-2*r.IntN(2)))
			case bool:
				field.SetBool(true)
			case []byte:
				field.SetBytes([]byte(words[1+r.IntN(len(words)-1)]))
			case []string:
				field.Set(reflect.ValueOf(words[:1+r.IntN(3)]))
			default:
				field.SetString(words[r.IntN(len(words))])
			}
		}
	}
	return events
}

// TestEncode: each plain field of an event is decoded as it was encoded. Data that was cut or changed gives an error or other events, and
// never a panic.
func TestEncode(t *testing.T) {
	t.Parallel()
	roundTrips := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 0))
		events := drawEvents(r)
		data := encodeEvents(nil, events)
		got, err := decodeEvents(data)
		if err != nil || len(got) != len(events) || len(got) > 0 && !reflect.DeepEqual(got, events) {
			t.Logf("encoded %+v\ndecoded %+v, %v", events, got, err)
			return false
		}
		for range 20 {
			if len(data) == 0 {
				break
			}
			data[r.IntN(len(data))] = byte(r.IntN(256))
			_, _ = decodeEvents(data[:r.IntN(len(data)+1)])
		}
		return true
	}
	if err := quick.Check(roundTrips, nil); err != nil {
		t.Error(err)
	}
}

// readSegment returns the history of a run with one segment, whose plain part is data.
func readSegment(data []byte) (*Past, error) {
	return (&keys{}).open(&Record{Segments: []Segment{{Lease: 1, First: 1, Events: data}}, Written: -1})
}

// TestNoHeader: a segment without its header, which holds the MAC of its events, is read only in a run of a version that wrote none.
func TestNoHeader(t *testing.T) {
	t.Parallel()
	k, err := newKeys(make([]byte, MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	s := k.sealEvents("run_a", 1, []Event{{N: 1, Kind: Stopped}})
	s.Events = s.Events[headerSize:]
	for written, want := range map[int]error{-1: nil, 1: errDamaged} {
		if _, err := k.open(&Record{Row: Row{ID: "run_a"}, Segments: []Segment{*s}, Written: written}); !errors.Is(err, want) {
			t.Errorf("of %d segments: %v, want %v", written, err, want)
		}
	}
}

// TestImpossibleEvents: an event with a number or an outcome that no run writes makes the run unreadable.
func TestImpossibleEvents(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(began, ended *Event){
		"a negative ordinal":         func(began, _ *Event) { began.Ordinal = -1 },
		"a huge ordinal":             func(began, _ *Event) { began.Ordinal = math.MaxInt32 },
		"an unknown outcome":         func(_, ended *Event) { ended.Outcome = "maybe" },
		"an unknown assumed outcome": func(_, ended *Event) { ended.Kind, ended.Outcome = Assumed, "maybe" },
	} {
		events := []Event{{N: 1, Kind: Began, Effect: "write", MAC: make([]byte, macSize)}, {N: 2, Kind: Ended, Of: 1, Outcome: fault.Applied}}
		if _, err := readSegment(encodeEvents(nil, events)); err != nil {
			t.Fatal(err)
		}
		change(&events[0], &events[1])
		if _, err := readSegment(encodeEvents(nil, events)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
}

// FuzzEvents: the plain part of a segment, however it was changed, is read or makes the run unreadable.
func FuzzEvents(f *testing.F) {
	call := Event{N: 1, Kind: Began, Function: "put", Effect: "write", MAC: make([]byte, macSize), Approvals: []string{"a"}}
	f.Add(encodeEvents(nil, []Event{call, {N: 2, Kind: Ended, Of: 1, Outcome: fault.Applied},
		{N: 3, Kind: Assumed, Of: 1, Outcome: fault.NotSent}}))
	call.Kind, call.Effect = Read, ""
	f.Add(encodeEvents(nil, []Event{{N: 1, Kind: Sent, Scope: "s"}, call, {N: 3, Kind: Waits}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		past, err := readSegment(data)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			t.Errorf("error %v, want ErrUnreadable", err)
		}
		if err == nil {
			past.clone()
		}
	})
}
