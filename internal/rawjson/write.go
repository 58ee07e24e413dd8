package rawjson

import "strconv"

// Writer appends compact JSON objects and arrays, with their commas. The zero value is ready to use.
type Writer struct {
	B []byte // the text so far
}

// comma writes the comma before a member or an element, unless it is the first.
func (w *Writer) comma() {
	if n := len(w.B); n > 0 && w.B[n-1] != '{' && w.B[n-1] != '[' {
		w.B = append(w.B, ',')
	}
}

// Key begins a member. The name must need no escapes; the value follows.
func (w *Writer) Key(name string) {
	w.comma()
	w.B = append(append(append(w.B, '"'), name...), '"', ':')
}

// Raw writes a member whose value is JSON.
func (w *Writer) Raw(name string, value []byte) {
	w.Key(name)
	w.B = append(w.B, value...)
}

// Text writes a member whose value is a string.
func (w *Writer) Text(name, value string) {
	w.Key(name)
	w.B = AppendQuote(w.B, value)
}

// Int writes a member whose value is a whole number.
func (w *Writer) Int(name string, value int64) {
	w.Key(name)
	w.B = strconv.AppendInt(w.B, value, 10)
}

// Bool writes a member whose value is true or false.
func (w *Writer) Bool(name string, value bool) {
	w.Key(name)
	w.B = strconv.AppendBool(w.B, value)
}

// Texts writes a member whose value is an array of strings.
func (w *Writer) Texts(name string, values []string) {
	w.OpenMember(name, '[')
	for _, v := range values {
		w.comma()
		w.B = AppendQuote(w.B, v)
	}
	w.Close(']')
}

// Ints writes a member whose value is an array of whole numbers.
func (w *Writer) Ints(name string, values []int) {
	w.OpenMember(name, '[')
	w.elements(values)
	w.Close(']')
}

// IntArray writes an array of whole numbers as an element.
func (w *Writer) IntArray(values []int) {
	w.Open('[')
	w.elements(values)
	w.Close(']')
}

func (w *Writer) elements(values []int) {
	for _, n := range values {
		w.comma()
		w.B = strconv.AppendInt(w.B, int64(n), 10)
	}
}

// Open begins an object or an array, '{' or '[', that is an element or the whole text.
func (w *Writer) Open(bracket byte) {
	w.comma()
	w.B = append(w.B, bracket)
}

// OpenMember begins an object or an array that is the value of a member.
func (w *Writer) OpenMember(name string, bracket byte) {
	w.Key(name)
	w.B = append(w.B, bracket)
}

// Close ends an object or an array.
func (w *Writer) Close(bracket byte) { w.B = append(w.B, bracket) }
