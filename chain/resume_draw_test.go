package chain_test

import (
	"cmp"
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
	prints  map[string]bool   // the positions whose calls return the picture of what they put
	before  map[string]string // what a key holds before, if it is one of state or files; "": nothing
	undoers map[string]string // the functions by which a source says that the call at a position is undone
	refs    []string          // how a later step refers to the result of each step
	text    string
	undoes  bool // it has "onError":"undo"
}

// drawDelivery draws a drawnDelivery.
func drawDelivery(random *rand.Rand) *drawnDelivery {
	d := &drawnDelivery{random: random, keys: map[string]string{}, repeats: map[string]bool{}, prints: map[string]bool{},
		before: map[string]string{}, undoers: map[string]string{}, undoes: random.IntN(5) == 0}
	n := 1 + random.IntN(6)
	if random.IntN(20) == 0 {
		n += 8 // so that some positions are prefixes of others, as 1 is of 10
	}
	for i := range n {
		d.refs = append(d.refs, fmt.Sprintf(`"$%d"`, i))
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
		value = d.refs[d.random.IntN(i)]
	}
	key := fmt.Sprintf("k%d", i)
	switch d.random.IntN(14) {
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
		name := []string{"deliver", "hand_on", "careful", "keep"}[d.random.IntN(4)]
		d.recordKeys(fmt.Sprint(i), key, name)
		return fmt.Sprintf(`{"fn":"chain.%s","args":{"key":%q,"note":%s}}`, name, key, value)
	case 7:
		name, concurrency := "deliver", 1
		if d.random.IntN(2) == 0 {
			name, concurrency = []string{"place", "careful", "keep"}[d.random.IntN(3)], 1+d.random.IntN(3)
		}
		return fmt.Sprintf(`{"fn":"chain.%s"%s,"args":{"key":"%s.${$item}","note":%s}}`, name,
			d.forEach(i, key, name, 1+d.random.IntN(3), concurrency), key, value)
	case 8:
		forEach := d.forEach(i, key, "place", 1+d.random.IntN(3), 1+d.random.IntN(3))
		return fmt.Sprintf(`{"args":{"note":%s,"i":"$item"}%s,"chain":{"steps":[{"fn":"shop.page","args":{"page":1}},%s]}}`, value, forEach,
			d.put(`"`+key+`.${$input.i}"`, `"$input.note"`, ""))
	case 9:
		return d.look(i, key)
	case 10: // a put whose result is a block
		d.keys[fmt.Sprint(i)], d.prints[fmt.Sprint(i)], d.refs[i] = key, true, fmt.Sprintf(`"$%d.data"`, i)
		return fmt.Sprintf(`{"fn":"shop.print","args":{"key":%q,"note":%s}%s}`, key, value,
			d.maybe(2, fmt.Sprintf(`,"undo":{"fn":"shop.remove","args":{"key":%q}}`, key)))
	case 11:
		return d.changeState(i, key, value)
	case 12:
		return d.changeFile(i, key)
	}
	d.keys[fmt.Sprintf("%d.1", i)] = key
	return fmt.Sprintf(`{"args":{"note":%s},"chain":{"steps":[{"fn":"shop.count"},%s]}}`, value,
		d.put(fmt.Sprintf("%q", key), `["$input.note","$0.n"]`, ""))
}

// look returns a step that reads a picture, or several.
func (d *drawnDelivery) look(i int, key string) string {
	if d.random.IntN(3) == 0 {
		d.refs[i] = fmt.Sprintf(`"$%d[*].data"`, i)
		return fmt.Sprintf(`{"fn":"shop.look","args":{"of":"%s.${$item}"},"forEach":"0..%d"}`, key, d.random.IntN(3))
	}
	d.refs[i] = fmt.Sprintf(`"$%d.data"`, i)
	return fmt.Sprintf(`{"fn":"shop.look","args":{"of":%q}%s}`, key, d.maybe(3, `,"retry":{"max":1}`))
}

// changeState returns a step that changes a value of state. A later step does not refer to its result, since versions differ from one run to
// the next.
func (d *drawnDelivery) changeState(i int, key, value string) string {
	d.refs[i] = `"fixed"`
	args, before := fmt.Sprintf(`{"key":%q,"value":%s}`, key, value), ""
	switch d.random.IntN(5) {
	case 0: // for each element
		forEach := d.forEach(i, inState+key, "", d.random.IntN(4), 1+d.random.IntN(3))
		for position := range d.keys {
			if strings.HasPrefix(position, fmt.Sprintf("%d[", i)) {
				d.undoers[position] = ""
			}
		}
		return fmt.Sprintf(`{"fn":"state.set","args":{"key":"%s.${$item}","value":%s}%s}`, key, value, forEach)
	case 1:
		before = `{"old":1.10}`
	case 2:
		before = `[1]`
	case 3:
		args, before = fmt.Sprintf(`{"key":%q}`, key), `"old"`
	}
	d.keep(i, inState+key, before, "")
	function := cmp.Or(map[string]string{"[1]": "append", `"old"`: "delete"}[before], "set")
	return fmt.Sprintf(`{"fn":"state.%s","args":%s}`, function, args)
}

// changeFile returns a step that changes a file.
func (d *drawnDelivery) changeFile(i int, key string) string {
	d.refs[i] = fmt.Sprintf(`"$%d.path"`, i)
	if d.random.IntN(2) == 0 {
		d.keep(i, inFile+key, "the old text", "fs.write")
		return fmt.Sprintf(`{"fn":"fs.edit","args":{"path":%q,"old":"old","new":"new"}}`, key)
	}
	d.keep(i, inFile+key, "", "fs.remove")
	content := `"text":"new"`
	for _, ref := range d.refs[:i] {
		if strings.HasSuffix(ref, `.data"`) && !strings.Contains(ref, "*") {
			content = `"data":` + ref
		}
	}
	return fmt.Sprintf(`{"fn":"fs.write","args":{"path":%q,%s}}`, key, content)
}

// keep records that a step changes what a key holds, and the function that its source undoes it by.
func (d *drawnDelivery) keep(i int, key, before, undoer string) {
	position := fmt.Sprint(i)
	d.keys[position], d.undoers[position] = key, undoer
	if before != "" {
		d.before[key] = before
	}
}

// undoer returns the function that undoes the call at a position; "": one that no answer reports, as it is always known.
func (d *drawnDelivery) undoer(position string) string {
	if name, ok := d.undoers[position]; ok {
		return name
	}
	return "shop.remove"
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
	case "keep":
		d.keys[position+".0"], d.undoers[position+".0"] = inState+key, ""
		d.keys[position+".1"], d.undoers[position+".1"] = inFile+key, "fs.remove"
		d.keys[position+".2"] = key
	default:
		d.keys[position+".1"] = key
	}
}
