package refs

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// decode decodes valid compact JSON into the values of expressions: nil, bool, int, float64, string, []any and
// map[string]any. It remembers the text of every object and array.
func (e *evaluation) decode(raw string) (any, error) {
	if raw[0] != '{' && raw[0] != '[' {
		if err := e.chargeValue(len(raw)); err != nil {
			return nil, err
		}
		return decodeScalar(raw), nil
	}
	id := identity{unsafe.Pointer(unsafe.StringData(raw)), len(raw)}
	if value, ok := e.decoded[id]; ok {
		return value, nil
	}
	if err := e.chargeValue(len(raw)); err != nil {
		return nil, err
	}
	if e.decoded == nil {
		e.decoded, e.origins = map[identity]any{}, map[identity]string{}
	}
	d := decoder{raw: raw, evaluation: e}
	value, err := d.value(0)
	if err == nil {
		err = e.charge(d.uncharged)
	}
	if err == nil {
		e.decoded[id] = value
	}
	return value, err
}

// decoder reads a valid compact JSON text once, from left to right.
type decoder struct {
	*evaluation
	raw       string
	pos       int
	uncharged int // bytes of memory that were not charged yet
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fault.New(fault.BadExpression, "A value is nested deeper than %d levels.", maxDepth)
	}
	if d.uncharged += elementBytes; d.uncharged > freeMemory/4 {
		if err := d.charge(d.uncharged); err != nil {
			return nil, err
		}
		d.uncharged = 0
	}
	start := d.pos
	switch d.raw[d.pos] {
	case '{':
		d.uncharged += objectBytes + containerBytes
		object := map[string]any{}
		for d.pos++; d.raw[d.pos] != '}'; {
			if d.raw[d.pos] == ',' {
				d.pos++
			}
			key := d.string()
			d.pos++ // the colon
			member, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			if _, ok := object[key]; !ok { // the first of duplicate keys wins
				if len(object) >= 8 { // objectBytes has room for eight
					d.uncharged += memberBytes
				}
				object[key] = member
			}
		}
		d.pos++
		d.remember(reflect.ValueOf(object), start)
		return object, nil
	case '[':
		d.uncharged += containerBytes
		array := []any{}
		for d.pos++; d.raw[d.pos] != ']'; {
			if d.raw[d.pos] == ',' {
				d.pos++
			}
			element, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			array = append(array, element)
		}
		d.pos++
		d.remember(reflect.ValueOf(array), start)
		return array, nil
	case '"':
		return d.string(), nil
	}
	for d.pos < len(d.raw) && strings.IndexByte(",]}", d.raw[d.pos]) < 0 {
		d.pos++
	}
	return decodeScalar(d.raw[start:d.pos]), nil
}

func (d *decoder) remember(v reflect.Value, start int) {
	if id := identityOf(v); id.data != nil {
		d.origins[id] = d.raw[start:d.pos]
	}
}

func (d *decoder) string() string {
	start := d.pos
	d.pos = rawjson.StringEnd(d.raw, start)
	raw := d.raw[start:d.pos]
	if strings.IndexByte(raw, '\\') >= 0 {
		d.uncharged += 3 * len(raw) // a text without escapes is a slice of raw, and costs nothing
	}
	return rawjson.Unquote(raw)
}

func decodeScalar(raw string) any {
	switch raw[0] {
	case '"':
		return rawjson.Unquote(raw)
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return int(n)
	}
	if !strings.ContainsAny(raw, ".eE") {
		return bigInteger{raw}
	}
	// A number out of range becomes an infinity: it can be compared, but not returned.
	f, _ := strconv.ParseFloat(raw, 64)
	return f
}

// appendValue appends a value as compact JSON. Decoded objects and arrays keep their text; the keys of new objects are
// sorted.
func (e *evaluation) appendValue(dst []byte, value any, depth int) ([]byte, error) {
	if depth > maxDepth || len(dst) > maxOutput {
		return dst, fault.New(fault.BadExpression, "The value is too large, or nested too deeply.")
	}
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case bigInteger:
		return append(dst, v.text...), nil
	case float64:
		if e.uniform && math.Abs(v) > exactFloat && !math.IsInf(v, 0) {
			return strconv.AppendFloat(dst, v, 'f', 0, 64), nil // all digits, as integers have
		}
		return appendFloat(dst, v)
	case time.Time:
		text, err := formatDate(v)
		if err != nil {
			return nil, err
		}
		return appendString(dst, text), nil
	case *time.Location:
		return appendString(dst, v.String()), nil
	case fmt.Stringer: // durations, months and weekdays
		return appendString(dst, v.String()), nil
	case []byte:
		return appendString(dst, string(v)), nil
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if raw, ok := e.origins[identityOf(v)]; ok && !e.uniform {
			return append(dst, raw...), nil
		}
		if err := e.chargeWork(v.Len() + elementBytes); err != nil {
			return dst, err
		}
		if v.Kind() == reflect.Map {
			return e.appendMap(dst, v, depth)
		}
		return e.appendArray(dst, v, depth)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float32:
		return appendFloat(dst, v.Float())
	}
	return dst, fault.New(fault.BadExpression, "The value is %s, which JSON cannot hold.", typeName(value))
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, fault.New(fault.BadExpression, "The value is not a finite number, which JSON cannot hold. A division by zero gives one.")
	}
	raw, err := json.Marshal(f)
	return append(dst, raw...), err
}

func (e *evaluation) appendArray(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = e.appendValue(dst, v.Index(i).Interface(), depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendMap appends a map with sorted keys; keys that are not strings (groupBy makes them) are written as text.
func (e *evaluation) appendMap(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	members := make(map[string]reflect.Value, v.Len())
	for it := v.MapRange(); it.Next(); {
		name, err := keyName(it.Key().Interface())
		if err != nil {
			return dst, err
		}
		if _, ok := members[name]; ok {
			return dst, fault.New(fault.BadExpression, "Two keys of an object are both written %q.", clip(name))
		}
		members[name] = it.Value()
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		var err error
		if dst, err = e.appendValue(dst, members[name].Interface(), depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// keyName returns a key of an object as text; "null" for nil.
func keyName(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bigInteger:
		return k.text, nil
	case bool, int, float64, fmt.Stringer:
		return fmt.Sprint(k), nil
	}
	return "", fault.New(fault.BadExpression, "A key of an object is %s; a string is needed.", typeName(key))
}

// typeName returns the JSON type of a value, in words.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case time.Time:
		return "a date"
	case time.Duration:
		return "a duration"
	case bigInteger:
		return "a number"
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map:
		return "an object"
	case reflect.Func:
		return "a function"
	case reflect.Struct, reflect.Pointer:
		return "an unknown value"
	}
	return "a number"
}
