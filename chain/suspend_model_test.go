package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// TestSuspendedRunsAreTheSame: a chain that is suspended in its pauses and resumed makes the same calls at the same times as one that is
// not suspended, and has the same answer.
func TestSuspendedRunsAreTheSame(t *testing.T) {
	t.Parallel()
	total := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := drawPausingChain(rt)
		synctest.Test(t, func(t *testing.T) {
			unsuspended := newJobs(t)
			wantAnswer := unsuspended.engine.Run(t.Context(), []byte(text), nil)
			want := unsuspended.world.seen()
			interrupted := newJobs(t)
			answer, suspensions := interrupted.run(t, text)
			got := interrupted.world.seen()
			total += suspensions
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				rt.Errorf("%s\nsuspended %d times; calls\n%s\nwant\n%s", text, suspensions, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, member := range []string{"ok", "result", "error.code", "error.message", "error.step"} {
				if gjson.GetBytes(answer.JSON, member).Raw != gjson.GetBytes(wantAnswer.JSON, member).Raw {
					rt.Errorf("%s\nsuspended %d times; %s of the answer\n%s\ndiffers, want\n%s", text, suspensions, member, answer.JSON, wantAnswer.JSON)
				}
			}
			if gjson.GetBytes(wantAnswer.JSON, "error.code").Str == "compile" {
				rt.Errorf("the drawn chain does not compile: %s", wantAnswer.JSON)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
	t.Logf("suspended %d times", total)
}

// drawPausingChain draws a chain whose calls all begin and end at different times.
func drawPausingChain(rt *rapid.T) string {
	var list []string
	us := 0 // how long the next call takes, in microseconds: different for each call
	draw := func(low, high int) int { return rapid.IntRange(low, high).Draw(rt, "n") }
	call := func(fn, id, more string) string {
		us += 1009
		return fmt.Sprintf(`"fn":"job.%s","args":{"id":%q,"us":%d%s}`, fn, id, us+draw(0, 20)*1_000_000, more)
	}
	poll := func(id string) string {
		until := `"until":"$result.done"`
		if draw(0, 3) == 0 {
			until += `,"collect":"$result.rows"`
		}
		return call("poll", id, fmt.Sprintf(`,"needs":%d`, draw(1, 4))) +
			// Pauses of minPause (10 s) and more suspend the run.
			fmt.Sprintf(`,"repeat":{%s,"max":%d,"delayMs":%d}`, until, draw(3, 9), []int{0, 9000, 10_000, 47_000, 600_000}[draw(0, 4)])
	}
	forEach := func() string { return fmt.Sprintf(`,"forEach":"1..%d","concurrency":%d`, draw(1, 6), draw(1, 6)) }
	for i := range draw(1, 5) {
		id := fmt.Sprintf("s%d", i)
		step := ""
		switch draw(0, 8) {
		case 0, 1: // polls until a job is done
			step = poll(id)
		case 2: // polls for each element
			step = poll(id+".${$item}") + forEach()
		case 3: // a write
			step = call("start", id, "")
		case 4: // an inline chain that polls and writes, for each element
			step = `"args":{"i":"$item"},"chain":{"steps":[{` + poll(id+".${$input.i}") + `},{` +
				call("start", id+".w${$input.i}", "") + `}]}` + forEach()
		case 5:
			step = `"args":{},"chain":{"steps":[{` + call("poll", id, fmt.Sprintf(`,"needs":%d`, draw(1, 3))) + `}]},` +
				`"repeat":{"until":"$result.done","max":4,"delayMs":30000}`
		case 6:
			step = call([]string{"poll", "set"}[draw(0, 1)], id+".${$item}", fmt.Sprintf(`,"fails":%d`, draw(0, 3))) + forEach() +
				fmt.Sprintf(`,"retry":{"max":%d,"backoffMs":%d}`, draw(1, 3), []int{10, 6000, 15_000, 100_000}[draw(0, 3)])
		case 7:
			step = call("poll", id, fmt.Sprintf(`,"fails":%d`, max(0, draw(0, 5)-4)))
		case 8:
			step = `"args":{},"timeoutMs":86400000,"chain":{"steps":[{` + poll(id) + `},{` + poll(id+"b") + `}]}`
		}
		if draw(0, 5) == 0 {
			step += `,"orElse":[0]`
		}
		list = append(list, `{`+step+`}`)
	}
	onError := []string{"stop", "continue", "undo"}[draw(0, 2)]
	return fmt.Sprintf(`{"key":"K","onError":%q,"return":["$0","$%d"],"steps":[%s]}`, onError, len(list)-1, strings.Join(list, ","))
}
