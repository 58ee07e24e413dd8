package refs

import (
	"reflect"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// take counts bytes of memory.
func (e *evaluation) take(n int) error {
	e.memory += n
	if e.memory <= freeMemory+e.reserved && n >= 0 {
		return nil
	}
	if n < 0 || e.memory > maxMemory {
		return fault.New(fault.BadExpression, "The expression holds more than %d MiB of values. Take less of the results.", maxMemory>>20)
	}
	if err := e.heavy(); err != nil { // first: what waits for a slot holds nothing of what others may want
		return err
	}
	more := e.memory - e.reserved // and freeMemory in advance
	if err := admit.Hold(e.ctx, more); err != nil {
		return err
	}
	e.reserved += more
	return nil
}

// hold counts bytes of a value that is made.
func (e *evaluation) hold(n int) error {
	if err := e.take(n); err != nil {
		return err
	}
	return e.spend(n)
}

// made counts an array or object that the expression writes out.
func (e *evaluation) made(value any) (any, error) {
	n := containerBytes + size(value)*elementBytes
	if _, ok := value.(map[string]any); ok {
		n = objectBytes + size(value)*memberBytes
	}
	return value, e.take(n)
}

// weigh counts what is inside a value as often as it stands there: a value that is put into itself many times over is
// small in memory, yet endless to whoever walks it.
func (e *evaluation) weigh(value any) int {
	switch s := value.(type) {
	case string:
		return len(s)
	case large:
		return len(s.text)
	}
	v := reflect.ValueOf(value)
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array && k != reflect.Map {
		return 1
	}
	id := identityOf(v)
	if w, ok := e.weights[id]; ok && id.data != nil {
		return w
	}
	w := 1
	add := func(element reflect.Value) {
		if w <= maxWork && element.CanInterface() {
			w += e.weigh(element.Interface())
		}
	}
	if v.Kind() == reflect.Map {
		for it := v.MapRange(); it.Next(); {
			add(it.Key())
			add(it.Value())
		}
	} else {
		for i := range v.Len() {
			add(v.Index(i))
		}
	}
	w = min(w, maxWork+1)
	if id.data != nil {
		if e.weights == nil {
			e.weights = map[identity]int{}
		}
		e.weights[id] = w
	}
	return w
}

// identityOf a map or slice; none for an array and for what is empty, which has no place of its own.
func identityOf(v reflect.Value) identity {
	if k := v.Kind(); k != reflect.Map && k != reflect.Slice || v.Len() == 0 {
		return identity{}
	}
	return identity{v.UnsafePointer(), v.Len()}
}

// spendDeep counts a walk through the whole of values.
func (e *evaluation) spendDeep(values ...any) error {
	for _, v := range values {
		if err := e.spend(e.weigh(v)); err != nil {
			return err
		}
	}
	return nil
}
