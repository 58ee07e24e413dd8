package journal

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
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
			if name := e.Type().Field(f).Name; r.IntN(3) == 0 || name == "Result" || name == "Undo" || name == "Chain" || name == "Args" ||
				name == "readArgs" {
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
		data := encodeEvents(events)
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
