package chain_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// drawnDelivery is a chain whose writes each have a unique key.
type drawnDelivery struct {
	random  *rand.Rand
	steps   []string
	keys    map[string]string // the key of the item that a call puts, by the position of the call; the rounds of a repeat add "#" and a number
	repeats map[string]bool   // the positions whose calls repeat
	text    string
	undoes  bool // it has "onError":"undo"
}

// drawDelivery draws a drawnDelivery.
func drawDelivery(random *rand.Rand) *drawnDelivery {
	d := &drawnDelivery{random: random, keys: map[string]string{}, repeats: map[string]bool{}, undoes: random.IntN(5) == 0}
	n := 1 + random.IntN(6)
	if random.IntN(20) == 0 {
		n += 8 // so that some positions are prefixes of others, as 1 is of 10
	}
	for i := range n {
		d.steps = append(d.steps, d.step(i))
	}
	extra := ""
	if d.undoes {
		extra = `"onError":"undo",`
	}
	d.text = `{"key":"the run",` + extra + `"steps":[` + strings.Join(d.steps, ",") + `]}`
	return d
}

func (d *drawnDelivery) step(i int) string {
	value := `"fixed"`
	if i > 0 {
		value = fmt.Sprintf(`"$%d"`, d.random.IntN(i))
	}
	key := fmt.Sprintf("k%d", i)
	switch d.random.IntN(10) {
	case 0: // a read that may fail
		return `{"fn":"shop.count"` + d.maybe(6, `,"retry":{"max":1}`) + `}`
	case 1: // repeated reads
		return `{"fn":"shop.page","args":{"page":"$result.next ?? 1"},"repeat":{"until":"$result.next == 4","max":5,"collect":"$result.rows"}}`
	case 2, 3: // one put
		d.keys[fmt.Sprint(i)] = key
		return d.put(fmt.Sprintf("%q", key), value, "")
	case 4: // a put for each element
		return d.put(`"`+key+`.${$item}"`, value, d.forEach(i, key, "", d.random.IntN(4), 1+d.random.IntN(3)))
	case 5:
		d.keys[fmt.Sprint(i)], d.repeats[fmt.Sprint(i)] = key, true
		return fmt.Sprintf(`{"fn":"shop.advance","args":{"key":%q,"from":"$result?.at ?? 0","note":%s},"repeat":{"until":"$result.at >= %d","max":4}%s}`,
			key, value, 1+d.random.IntN(3), d.undo())
	case 6:
		name := []string{"deliver", "hand_on", "careful"}[d.random.IntN(3)]
		d.recordKeys(fmt.Sprint(i), key, name)
		return fmt.Sprintf(`{"fn":"chain.%s","args":{"key":%q,"note":%s}}`, name, key, value)
	case 7:
		name, concurrency := "deliver", 1
		if d.random.IntN(2) == 0 {
			name, concurrency = []string{"place", "careful"}[d.random.IntN(2)], 1+d.random.IntN(3)
		}
		return fmt.Sprintf(`{"fn":"chain.%s"%s,"args":{"key":"%s.${$item}","note":%s}}`, name,
			d.forEach(i, key, name, 1+d.random.IntN(3), concurrency), key, value)
	case 8:
		forEach := d.forEach(i, key, "place", 1+d.random.IntN(3), 1+d.random.IntN(3))
		return fmt.Sprintf(`{"args":{"note":%s,"i":"$item"}%s,"chain":{"steps":[{"fn":"shop.page","args":{"page":1}},%s]}}`, value, forEach,
			d.put(`"`+key+`.${$input.i}"`, `"$input.note"`, ""))
	}
	d.keys[fmt.Sprintf("%d.1", i)] = key
	return fmt.Sprintf(`{"args":{"note":%s},"chain":{"steps":[{"fn":"shop.count"},%s]}}`, value,
		d.put(fmt.Sprintf("%q", key), `["$input.note","$0.n"]`, ""))
}

// put returns a step that puts an item with a random function.
func (d *drawnDelivery) put(key, value, forEach string) string {
	fn := []string{"put", "put", "set", "pay", "guarded"}[d.random.IntN(5)]
	extra := forEach + d.undo()
	if fn == "set" || fn == "pay" {
		extra += d.maybe(3, `,"retry":{"max":1}`)
	}
	return fmt.Sprintf(`{"fn":"shop.%s","args":{"key":%s,"note":%s}%s}`, fn, key, value, extra)
}

func (d *drawnDelivery) undo() string {
	return d.maybe(2, `,"undo":{"fn":"shop.remove","args":{"key":"$result.of"}}`)
}

// maybe returns text with a probability of 1/n, otherwise "".
func (d *drawnDelivery) maybe(n int, text string) string {
	if d.random.IntN(n) == 0 {
		return text
	}
	return ""
}

// forEach returns the members of a step that run it for size elements, and records the keys that these put: by a saved chain, or by the
// step itself if saved is "".
func (d *drawnDelivery) forEach(i int, key, saved string, size, concurrency int) string {
	for e := range size {
		position, elementKey := fmt.Sprintf("%d[%d]", i, e), fmt.Sprintf("%s.%d", key, e)
		if saved == "" {
			d.keys[position] = elementKey
			continue
		}
		d.recordKeys(position, elementKey, saved)
	}
	if size == 0 {
		return `,"forEach":"[]"`
	}
	return fmt.Sprintf(`,"forEach":"0..%d","concurrency":%d`, size-1, concurrency)
}

// recordKeys records the keys that a saved chain puts.
func (d *drawnDelivery) recordKeys(position, key, saved string) {
	switch saved {
	case "hand_on":
		d.keys[position+".0.1"] = key
	case "careful":
		d.keys[position+".0"], d.keys[position+".1"] = key+".a", key+".b"
	default:
		d.keys[position+".1"] = key
	}
}
