package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

const (
	maxDetailed = 10  // more calls than this are shown as a table, unless the user asks for all
	maxEnds     = 3   // how many calls the table has at either end
	maxValue    = 600 // bytes of an argument that are shown, unless the user asks for all
)

// confirm shows calls, in the form of answers, asks about them, and returns the answer. verb begins the question, such as Approve. What is
// too much to read at once is shown in part, and the user can ask for all of it.
func (c *cli) confirm(ctx context.Context, verb string, calls []gjson.Result) (answer string, err error) {
	text, whole := waitingText(c.errPage(), calls, false)
	fmt.Fprint(c.err, text)
	question := fmt.Sprintf("%s %s? [y/N] ", verb, plural(int64(len(calls)), "call"))
	if whole {
		return c.askLine(ctx, question)
	}
	answer, err = c.askLine(ctx, strings.Replace(question, "[y/N]", "[y/N, a: show all]", 1))
	if err != nil || !strings.EqualFold(answer, "a") && !strings.EqualFold(answer, "all") {
		return answer, err
	}
	text, _ = waitingText(c.errPage(), calls, true)
	fmt.Fprint(c.err, text)
	return c.askLine(ctx, question)
}

// waitingText shows calls that wait for approval, as a dry run shows steps. whole reports whether it shows all of them in full, as it does
// if all is true.
func waitingText(p page, calls []gjson.Result, all bool) (text string, whole bool) {
	if !all && len(calls) > maxDetailed {
		return waitingTable(calls).text(p), false
	}
	var b strings.Builder
	whole = true
	for _, call := range calls {
		whole = p.appendCall(&b, call, all) && whole
	}
	return b.String(), whole
}

// appendCall appends a call: its place, function and effect, below them each argument on a line of its own, and what undoes it. It reports
// whether all of it is shown.
func (p page) appendCall(b *strings.Builder, call gjson.Result, all bool) (whole bool) {
	head := visible(strings.TrimSpace(call.Get("at").Str+" "+call.Get("id").Str) + "  " + call.Get("fn").Str)
	effect := call.Get("effect").Str
	fmt.Fprintf(b, "  %s  %s\n", paintIf(p.colors, bold, head), paintIf(p.colors, effectColor(effect), effect))
	whole = true
	line := func(before, value string) {
		text := visible(value)
		if !all && len(text) > maxValue {
			text, whole = fmt.Sprintf("%s… (%s)", textfile.Prefix(text, maxValue), plural(int64(len(value)), "byte")), false
		}
		writeWrapped(b, "      "+before+" "+text, 8, p.width)
	}
	call.Get("args").ForEach(func(name, value gjson.Result) bool {
		line(strings.Trim(visible(name.Raw), `"`)+":", value.Raw)
		return true
	})
	if undo := call.Get("undo"); undo.Exists() {
		line("undone by "+visible(undo.Get("fn").Str), undo.Get("args").Raw)
	}
	for _, flow := range call.Get("flows").Array() {
		line("because of", flow.Str)
	}
	return whole
}

// waitingTable returns a table of the first and the last of many calls. Before it stands how many there are of each function.
func waitingTable(calls []gjson.Result) *table {
	t := &table{columns: []column{{}, {least: 16}, {style: effectColor}, {least: 20}}}
	counts, firsts := map[string]int64{}, []gjson.Result{}
	for _, call := range calls {
		name := call.Get("fn").Str
		if counts[name]++; counts[name] == 1 {
			firsts = append(firsts, call)
		}
	}
	for _, call := range firsts {
		undo := ""
		if name := call.Get("undo.fn").Str; name != "" {
			undo = "undone by " + visible(name)
		}
		name := call.Get("fn").Str
		t.rows = append(t.rows, row{cells: []string{plural(counts[name], "call"), visible(name), call.Get("effect").Str, undo}})
	}
	t.rows = append(t.rows, row{cells: []string{"", "", "", ""}})
	for i, call := range calls {
		if i == maxEnds {
			t.rows = append(t.rows, row{cells: []string{"…", plural(int64(len(calls)-2*maxEnds), "more call"), "", ""}})
		}
		if i < maxEnds || i >= len(calls)-maxEnds {
			t.rows = append(t.rows, row{cells: []string{call.Get("at").Str, visible(call.Get("fn").Str), call.Get("effect").Str,
				visible(call.Get("args").Raw)}})
		}
	}
	return t
}

// visible returns a text, which may be JSON, with the characters escaped that would hide or turn others.
func visible(text string) string { return textfile.Printable(string(rawjson.Visible([]byte(text)))) }

// isYes reports whether an answer to a question agrees.
func isYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// isNo reports whether an answer to a question refuses, and does not only pass it over.
func isNo(answer string) bool {
	return strings.EqualFold(answer, "n") || strings.EqualFold(answer, "no")
}

// ask asks the user a question, and reports whether the answer is yes.
func (c *cli) ask(ctx context.Context, question string) (bool, error) {
	answer, err := c.askLine(ctx, question)
	return isYes(answer), err
}

// askLine asks the user a question and returns the answer without space around it. An interrupt cancels it.
func (c *cli) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprint(c.err, question)
	answer := make(chan string, 1)
	go func() { // ends with the line or with the process
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		c.noticef("")
		return "", exitError(exitInterrupted)
	}
}
