package exprs

import (
	"context"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
)

func replace(ctx context.Context, args []byte) ([]byte, error) {
	var a struct {
		Text    *string `json:"text"`
		Pattern *string `json:"pattern"`
		With    *string `json:"with"`
	}
	if err := decode(args, &a); err != nil {
		return nil, err
	}
	switch {
	case a.Text == nil:
		return nil, missing("text")
	case a.Pattern == nil:
		return nil, missing("pattern")
	case a.With == nil:
		return nil, missing("with")
	}
	s, err := newSearch(ctx, *a.Pattern, *a.Text)
	if err != nil {
		return nil, err
	}
	defer s.release()
	segments, err := parseReplacement(*a.With, s.Pattern.SubexpNames())
	if err != nil {
		return nil, err
	}
	out := []byte{'"'}
	copied := 0
	for indexes := range s.All() {
		if out, err = s.appendText(out, s.Text[copied:indexes[0]]); err == nil {
			out, err = s.appendSegments(out, segments, indexes)
		}
		copied = indexes[1]
		if err == nil {
			err = s.addMatch(out)
		}
		if err != nil {
			return nil, err
		}
	}
	if err = s.Err(); err == nil {
		out, err = s.appendText(out, s.Text[copied:])
	}
	if err != nil {
		return nil, err
	}
	return append(out, '"'), nil
}

// appendSegments appends the replacement of one match.
func (s *search) appendSegments(out []byte, segments []replacementSegment, indexes []int) (_ []byte, err error) {
	for _, segment := range segments {
		out = append(out, segment.literal...)
		if err = s.checkSize(out); err != nil {
			break
		}
		if start := indexes[2*segment.group]; segment.isGroup && start >= 0 {
			if out, err = s.appendText(out, s.Text[start:indexes[2*segment.group+1]]); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = s.CountWork(len(segments))
	}
	return out, err
}

// replacementSegment is part of a replacement: a literal, escaped for the inside of a JSON string, then a group if isGroup.
type replacementSegment struct {
	literal []byte
	group   int
	isGroup bool
}

// parseReplacement parses \1, \g<name>, \g<1>, \\ and \$. A group is not written with a dollar, because a chain would take `$1` for its
// step 1. The notation of other languages is rejected, with the correct form, instead of being taken as text.
func parseReplacement(with string, names []string) ([]replacementSegment, error) {
	var segments []replacementSegment
	var literal []byte
	for rest := with; rest != ""; {
		at := strings.IndexAny(rest, `\$`)
		if at < 0 {
			literal = refs.AppendEscaped(literal, rest)
			break
		}
		literal = refs.AppendEscaped(literal, rest[:at])
		mark, tail := rest[at], rest[at+1:]
		switch {
		case mark == '$' && tail != "" && strings.IndexByte("0123456789{<&", tail[0]) >= 0:
			return nil, badReplacement(`a group is written \1 or \g<name>; write \$ for a dollar sign before a digit or bracket`)
		case mark == '$':
			literal = append(literal, '$')
			rest = tail
		case strings.HasPrefix(tail, `\`), strings.HasPrefix(tail, `$`):
			literal = refs.AppendEscaped(literal, tail[:1])
			rest = tail[1:]
		default:
			group, after, err := parseGroup(tail, names)
			if err != nil {
				return nil, err
			}
			if len(segments) == maxGroups {
				f := fault.New(fault.LimitExceeded, "the replacement names more than %d groups", maxGroups)
				return nil, f.Under("/with")
			}
			segments = append(segments, replacementSegment{literal: literal, group: group, isGroup: true})
			literal = nil
			rest = after
		}
	}
	return append(segments, replacementSegment{literal: literal}), nil
}

// parseGroup reads the text after the backslash: one or two digits, or g<name>. It returns the group's number and the rest of
// the text.
func parseGroup(text string, names []string) (group int, rest string, err error) {
	name, digits := "", 0
	for digits < len(text) && digits < 2 && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	if name, rest = text[:digits], text[digits:]; digits == 0 {
		inside, after, ok := strings.Cut(text, ">")
		if !ok || !strings.HasPrefix(inside, "g<") {
			return 0, "", badReplacement(`a backslash must be followed by a group's number, g<name>, a dollar sign or another backslash`)
		}
		name, rest = inside[len("g<"):], after
	}
	for i, known := range names {
		if name == known && name != "" || name == strconv.Itoa(i) {
			return i, rest, nil
		}
	}
	return 0, "", badReplacement("the pattern has no group " + strconv.Quote(name))
}

func badReplacement(message string) *fault.Error {
	return &fault.Error{Code: fault.BadArguments, Message: message, At: "/with"}
}
