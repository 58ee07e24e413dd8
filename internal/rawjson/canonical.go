package rawjson

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxArgsDepth bounds the nesting of arguments, because each object is copied, with all that is in it, to sort its members.
const maxArgsDepth = 1000

// AppendCanonical appends compact, valid JSON in its canonical form, which equal values share: keys sorted, strings with
// the fewest escapes, numbers of any length as their exact decimal value (1.0 = 1 = 10e-1, -0 = 0). No library does that:
// RFC 8785 rounds numbers to 64 bits. It fails for a duplicate key, which is ambiguous, for a value nested more than 1,000
// levels deep, and for a number with an exponent of more than 1,000 digits.
func AppendCanonical(dst, value []byte) ([]byte, error) {
	c := canonical{in: value}
	return c.value(dst, 0)
}

type canonical struct {
	in       []byte
	at       int
	unsorted []byte // the members of the object that ended last
}

func (c *canonical) value(dst []byte, depth int) ([]byte, error) {
	if depth > maxArgsDepth {
		return nil, fmt.Errorf("arguments are nested more than %d levels deep", maxArgsDepth)
	}
	switch c.in[c.at] {
	case '{':
		return c.object(dst, depth)
	case '[':
		return c.array(dst, depth)
	case '"':
		return appendString(dst, c.token()), nil
	case 't', 'f', 'n':
		return append(dst, c.token()...), nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return appendNumber(dst, c.token())
	}
	return nil, fmt.Errorf("%q at byte %d begins no value of compact JSON", c.in[c.at], c.at)
}

// token returns the bytes of the string, number or word that begins here.
func (c *canonical) token() []byte {
	start := c.at
	c.at = ValueEnd(c.in, start)
	return c.in[start:c.at]
}

func (c *canonical) array(dst []byte, depth int) (_ []byte, err error) {
	dst = append(dst, '[')
	for c.at++; c.in[c.at] != ']'; {
		if c.in[c.at] == ',' {
			c.at++
			dst = append(dst, ',')
		}
		if dst, err = c.value(dst, depth+1); err != nil {
			return nil, err
		}
	}
	c.at++
	return append(dst, ']'), nil
}

func (c *canonical) object(dst []byte, depth int) (_ []byte, err error) {
	type member struct{ start, keyEnd, end int }
	var few [8]member // most objects have no more
	members, start := few[:0], len(dst)
	for c.at++; c.in[c.at] != '}'; {
		if c.in[c.at] == ',' {
			c.at++
		}
		m := member{start: len(dst)}
		dst = appendString(dst, c.token())
		m.keyEnd = len(dst)
		c.at++ // the colon
		dst = append(dst, ':')
		if dst, err = c.value(dst, depth+1); err != nil {
			return nil, err
		}
		m.end = len(dst)
		members = append(members, m)
	}
	c.at++
	c.unsorted = append(c.unsorted[:0], dst[start:]...)
	unsorted := c.unsorted
	key := func(m member) []byte { return unsorted[m.start-start : m.keyEnd-start] }
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(key(a), key(b)) })
	dst = append(dst[:start], '{')
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(key(members[i-1]), key(m)) {
				return nil, fmt.Errorf("the key %s occurs twice in one object", clip(string(key(m))))
			}
			dst = append(dst, ',')
		}
		dst = append(dst, unsorted[m.start-start:m.end-start]...)
	}
	return append(dst, '}'), nil
}

// appendString appends a string, given as JSON, and escapes only quotes, backslashes and control characters.
func appendString(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...)
	}
	dst = append(dst, '"')
	for _, c := range []byte(Unquote(View(raw))) {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// maxExponent bounds the digits of an exponent, since appendNumber computes with it.
const maxExponent = 1000

// appendNumber appends the digits without leading and trailing zeros, then e and the matching exponent: -12.50 is -125e-1. Zero is 0.
func appendNumber(dst, raw []byte) ([]byte, error) {
	mantissa, exponent := raw, []byte("0")
	if e := bytes.IndexAny(raw, "eE"); e >= 0 {
		mantissa, exponent = raw[:e], raw[e+1:]
	}
	if len(exponent) > maxExponent {
		return nil, fmt.Errorf("a number has an exponent of more than %d digits", maxExponent)
	}
	digits, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(digits, []byte("."))
	digits = slices.Concat(whole, fraction)
	significant := bytes.TrimRight(digits, "0")
	shift := int64(len(digits) - len(significant) - len(fraction))
	if significant = bytes.TrimLeft(significant, "0"); len(significant) == 0 {
		return append(dst, '0'), nil
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, significant...), 'e')
	if len(exponent) <= 18 { // it fits into an int64, even with the shift
		n, err := strconv.ParseInt(string(exponent), 10, 64)
		return strconv.AppendInt(dst, n+shift, 10), err
	}
	n, ok := new(big.Int).SetString(string(exponent), 10)
	if !ok {
		return nil, fmt.Errorf("a number is malformed")
	}
	return n.Add(n, big.NewInt(shift)).Append(dst, 10), nil
}

// clip shortens a key for a message.
func clip(key string) string {
	const maximum = 200
	if len(key) <= maximum {
		return key
	}
	return strings.ToValidUTF8(key[:maximum], "") + "…"
}
