package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/pretty"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// maxShown is the maximum size of a result shown at a terminal, in bytes.
const maxShown = 256 << 10

// showAnswer shows an answer to a person: its result on stdout, then on stderr a line for each step, if a.JSON has steps, and why the chain
// failed and what to do. doc is the chain's text. With lite, a.JSON is only the result, unless the chain failed.
func (c *cli) showAnswer(out *output, doc *document, a *chain.Answer, lite bool) error {
	answer, result := gjson.ParseBytes(a.JSON), gjson.ParseBytes(a.JSON)
	if !a.OK || !lite {
		result = answer.Get("result")
	}
	switch isText := (!a.OK || !lite) && result.Type == gjson.String && answer.Get("usage.format").Exists(); {
	case isText:
		if err := out.writeText(result.Str); err != nil {
			return err
		}
	case a.OK || !isEmpty(result):
		if err := c.showResult(out, result); err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil { // so that the failure on stderr comes last
		return err
	}
	if !lite {
		c.showSteps(answer.Get("steps").Array())
	}
	c.showDefaulted(a.Defaulted)
	if !a.OK {
		c.showFailure(doc, a, answer)
	}
	return nil
}

// isEmpty reports whether a result of a failed chain is not worth showing.
func isEmpty(result gjson.Result) bool {
	return slices.Contains([]string{"", "null", "[]", "{}", `""`}, result.Raw)
}

// showResult writes a result: a table of flat objects if the terminal has room for it; any other indented, and cut if it is too long to
// read.
func (c *cli) showResult(out *output, result gjson.Result) error {
	if shown, err := c.showTableOf(out, result); shown {
		return err
	}
	text := []byte(result.Raw)
	if len(text) == 0 {
		text = []byte("null")
	}
	size, cut := len(text), false
	var b bytes.Buffer
	if len(text) <= maxShown*2 { // what is much longer is cut in any case, and is not laid out
		text = pretty.PrettyOptions(text, &pretty.Options{Width: min(c.outWidth(), 100), Indent: "  "})
	}
	if len(text) > maxShown {
		text, cut = []byte(textfile.Prefix(string(text[:min(len(text), maxShown+utf8.UTFMax)]), maxShown)), true
		if end := bytes.LastIndexByte(text, '\n'); end > 0 {
			text = text[:end]
		}
	}
	text = rawjson.Visible(bytes.TrimRight(text, "\n"))
	if c.colors && !cut {
		text = pretty.Color(text, nil)
	}
	b.Write(text)
	b.WriteByte('\n')
	if _, err := out.w.Write(b.Bytes()); err != nil {
		return out.wrapWriteError(err)
	}
	if token := result.Get("continuation_token").Str; strings.HasPrefix(token, "oc1_") && !result.Get("since").Exists() {
		mode := "summary"
		if modes := stringList(result.Get("available_modes")); slices.Contains(modes, "paginated") {
			mode = "paginated"
		}
		c.noticef("The result is large: onecall fetch%s %s --mode %s", c.configFlag(), token, mode)
	}
	if cut {
		c.warnCut(out, size)
	}
	return nil
}

func (c *cli) warnCut(out *output, size int) {
	if out.unrepeatable {
		c.noticef("Cut here: the result has %d bytes. Do not run the chain again for the rest: it would write again. The next time, redirect the "+
			"output to a file or a pipe.", size)
		return
	}
	c.noticef("Cut here: the result has %d bytes. Redirect the output to a file or a pipe for all of it.", size)
}

// showSteps writes a line for each step.
func (c *cli) showSteps(steps []gjson.Result) {
	t := &table{columns: []column{{}, {}, {}, {style: statusColor}, {}, {}}}
	for _, s := range steps {
		status := s.Get("status").Str
		if why := s.Get("reason").Str + s.Get("error.code").Str; why != "" {
			status += " (" + why + ")"
		}
		if n := s.Get("elements"); n.Exists() {
			status += ", " + plural(n.Int(), "element")
		}
		t.rows = append(t.rows, row{cells: []string{s.Get("step").Raw, s.Get("id").Str, s.Get("fn").Str, status,
			wholeMillis(s.Get("ms").Int()), plural(s.Get("tokens").Int(), "token")}})
	}
	fmt.Fprint(c.err, t.text(c.errPage()))
}

// showDefaulted says where orElse stood in for failures, which the result does not tell.
func (c *cli) showDefaulted(steps []chain.DefaultedStep) {
	for _, s := range steps {
		name := fmt.Sprintf("step %d", s.Step)
		if s.ID != "" {
			name += " (" + s.ID + ")"
		}
		if s.Elements < 0 {
			c.noticef("%s failed, and orElse stands in for its result", name)
		} else {
			c.noticef("%s: %d of %s failed, and orElse stands in for each", name, s.Count, plural(int64(s.Elements), "element"))
		}
	}
}

// wholeMillis spells a duration that was rounded to milliseconds.
func wholeMillis(ms int64) string {
	if ms < 1000 {
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return figure.Millis(float64(ms))
}

// showFailure writes which calls wrote before the failure, the failure at its position, and what to do.
func (c *cli) showFailure(doc *document, a *chain.Answer, answer gjson.Result) {
	if len(a.Faults) > 0 {
		c.showFaults(doc, a.Faults)
		return
	}
	c.showWrites(answer.Get("writes").Array())
	failed := answer.Get("error")
	shown := fault.Error{Code: fault.Code(failed.Get("code").Str), Message: failed.Get("message").Str}
	if a.Error != nil {
		shown = *a.Error
		shown.Message = failed.Get("message").Str
	}
	if shown.Message == budget.ExpiredMessage { // the original message is for agents
		shown.Message = "the token has expired, or was never given: run the chain again for a new one. A large result is kept for results.ttl, by " +
			"default five minutes"
	}
	if step := failed.Get("step"); step.Exists() {
		shown.Message = stepName(failed) + ": " + shown.Message
	}
	c.showFaults(doc, []*fault.Error{&shown})
	for _, more := range []struct{ name, text string }{
		{"it answered", failed.Get("body").Raw},
		{"there are", strings.Join(stringList(failed.Get("available")), ", ")},
		{"it takes", inputOf(failed.Get("signature").Str)},
	} {
		if more.text != "" && shown.Code != fault.ResumeConflict {
			c.noticef("%s%s: %s", margin, more.name, fault.ClipRunes(more.text, 300))
		}
	}
	calls, _ := waitingText(c.errPage(), failed.Get("calls").Array(), false)
	fmt.Fprint(c.err, calls)
	if run := answer.Get("resume").Str; run != "" && !c.replays {
		c.noticef("%s", c.nextCommand(&shown, doc, run, unknownWrites(&shown, failed, answer.Get("writes").Array())))
	}
}

// inputOf returns a signature without its result.
func inputOf(signature string) string {
	if input, _, ok := strings.Cut(signature, "): "); ok {
		return input + ")"
	}
	return signature
}

// stepName returns a name for the step of a failure, an element or a trace entry.
func stepName(s gjson.Result) string {
	name := "step " + s.Get("step").Raw
	if id := s.Get("id").Str; id != "" {
		name += " (" + id + ")"
	}
	if index := s.Get("index"); index.Exists() {
		name += ", element " + index.Raw
	}
	return name
}

// showWrites lists the calls that wrote, or may have written.
func (c *cli) showWrites(writes []gjson.Result) {
	t := &table{columns: []column{{}, {}, {style: statusColor}}}
	for _, write := range writes {
		outcome := write.Get("outcome").Str
		if outcome == string(fault.NotSent) || outcome == string(fault.Failed) {
			continue // nothing was done
		}
		name := "before, at " + write.Get("at").Str
		if write.Get("step").Exists() {
			name = stepName(write)
		}
		if elements := write.Get("elements").Str; elements != "" {
			name += ", elements " + elements
		}
		if outcome == string(fault.SentUnknown) {
			outcome = unknownOutcome
		}
		t.rows = append(t.rows, row{cells: []string{name, write.Get("fn").Str, outcome}})
	}
	fmt.Fprint(c.err, t.text(c.errPage()))
}

// unknownOutcome says what sent_unknown means.
const unknownOutcome = "sent, but it is not known whether it was done"

// nextCommand returns the command that continues a run. positions are those of the calls that --assume must name.
func (c *cli) nextCommand(f *fault.Error, doc *document, run string, positions []string) string {
	file := cmp.Or(doc.file, "[FILE]")
	config := c.configFlag()
	switch f.Code {
	case fault.ApprovalRequired:
		return fmt.Sprintf("Approve them: onecall approve%s %s, then onecall resume%s %s", config, run, config, run)
	case fault.Denied:
		return fmt.Sprintf("What was denied stays denied until a person approves it: onecall approve%s %s, then onecall resume%s %s",
			config, run, config, run)
	}
	switch {
	case f.Code == fault.ResumeConflict && len(f.Available) > 0 && len(positions) == 0:
		return fmt.Sprintf("Put back what is applied as it was, and go on: onecall resume%s %s %s; or take it back: onecall undo%s %s", config, run,
			file, config, run)
	case len(positions) > 0:
		var flags strings.Builder
		for _, position := range positions {
			fmt.Fprintf(&flags, " --assume '%s=applied'", position)
		}
		return fmt.Sprintf("Find out whether each call was done (if not: 'PLACE=not_sent'), and go on: onecall resume%s %s%s %s", config, run,
			flags.String(), file)
	}
	return fmt.Sprintf("Fix it and go on; nothing is done twice: onecall resume%s %s %s, or onecall console%s", config, run, file, config)
}

// configFlag returns the --config flag for a command that is shown; "" if it is not needed.
func (c *cli) configFlag() string {
	if c.configPath == "" {
		return ""
	}
	return " --config " + c.configPath
}

// unknownWrites returns the positions of the calls whose outcomes a resume needs: at most maxAssumed, unless the failure lists them itself.
// What the run knows to be done is not one of them.
func unknownWrites(f *fault.Error, failed gjson.Result, writes []gjson.Result) []string {
	if f.Code == fault.ResumeConflict {
		return slices.DeleteFunc(stringList(failed.Get("available")), func(position string) bool {
			return slices.ContainsFunc(writes, func(w gjson.Result) bool {
				return w.Get("at").Str == position && w.Get("outcome").Str != string(fault.SentUnknown)
			})
		})
	}
	var positions []string
	for _, write := range writes {
		if write.Get("outcome").Str != string(fault.SentUnknown) || len(positions) == maxAssumed {
			continue
		}
		position := cmp.Or(write.Get("in").Str, write.Get("step").Raw)
		if elements := write.Get("elements").Str; elements != "" {
			position += "[" + elements + "]"
		}
		if !strings.ContainsAny(position, ",-") { // the calls of a range must be named one by one
			positions = append(positions, position)
		}
	}
	return positions
}

// maxAssumed is the maximum number of positions in a suggested command.
const maxAssumed = 8

func stringList(list gjson.Result) (all []string) {
	for _, value := range list.Array() {
		all = append(all, value.String())
	}
	return all
}
