package refs

import (
	"reflect"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// charge counts n bytes of memory. If the evaluation then uses over freeMemory bytes more than it has reserved in the context's memory, it
// reserves all that it uses. It fails past maxMemory, if the context's memory is full, and for a negative n, which is the overflow of a
// size.
func (e *evaluation) charge(n int) error {
	e.memory += n
	if e.memory <= freeMemory+e.reserved && n >= 0 {
		return nil
	}
	if n < 0 || e.memory > maxMemory {
		return fault.New(fault.BadExpression, "The expression holds more than %d MiB of values. Take less of the results.", maxMemory>>20)
	}
	if err := e.acquireSlot(); err != nil { // first: while it waits for a slot it must not hold memory that others may need
		return err
	}
	more := e.memory - e.reserved // after this, freeMemory bytes can be used before the next reservation
	if err := admit.Hold(e.ctx, more); err != nil {
		return err
	}
	e.reserved += more
	return nil
}

// chargeValue counts n bytes of memory for a new value, and as much work.
func (e *evaluation) chargeValue(n int) error {
	if err := e.charge(n); err != nil {
		return err
	}
	return e.chargeWork(n)
}

// chargeLiteral charges for an array or object literal.
func (e *evaluation) chargeLiteral(value any) (any, error) {
	n := containerBytes + size(value)*elementBytes
	if _, ok := value.(map[string]any); ok {
		n = objectBytes + size(value)*memberBytes
	}
	return value, e.charge(n)
}

// weigh returns the work of walking a value: the bytes of its texts, and 1 for each other value and each container, at most maxWork+1.
// A value that occurs several times counts each time: nested lists of the same list are small in memory, but endless to walk.
func (e *evaluation) weigh(value any) int {
	switch s := value.(type) {
	case string:
		return len(s)
	case bigInteger:
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

// identityOf returns the identity of a map or slice; the zero identity for anything else and for an empty one, which have no address
// of their own.
func identityOf(v reflect.Value) identity {
	if k := v.Kind(); k != reflect.Map && k != reflect.Slice || v.Len() == 0 {
		return identity{}
	}
	return identity{v.UnsafePointer(), v.Len()}
}

// chargeWalk counts a walk through whole values.
func (e *evaluation) chargeWalk(values ...any) error {
	for _, v := range values {
		if err := e.chargeWork(e.weigh(v)); err != nil {
			return err
		}
	}
	return nil
}
