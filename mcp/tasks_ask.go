package mcp

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// askingTask returns a run that waits for approval as a task that asks for it.
func askingTask(r *chain.DetachedRun, requests sdk.InputRequestMap) *task {
	return &task{ResultType: "complete", ID: r.ID, Status: taskAsks, Message: "it waits for approval", Created: stamp(r.Began),
		Updated: stamp(r.Last), Interval: taskPollInterval.Milliseconds(), Requests: requests}
}

// requests returns what the client is asked, by key: a form for the calls of each function, or the page of the console if the client shows
// pages only. nil: nothing is asked, the client cannot ask its user, or a question is too long.
func (q *taskRequest) requests(run string, questions []chain.OpenQuestion) sdk.InputRequestMap {
	form, page := asksBy(q.session)
	if len(questions) == 0 || !form && !page {
		return nil
	}
	if !form {
		c := &call{console: q.from.ConsoleURL()}
		if c.console == "" {
			return nil
		}
		asked := &chain.Question{Run: run}
		for i := range questions {
			asked.Calls = append(asked.Calls, questions[i].Calls...)
		}
		return sdk.InputRequestMap{pagePrefix + questions[0].Key: c.pageQuestion(asked)} // no reply: people decide in the console
	}
	requests := sdk.InputRequestMap{}
	for i := range questions {
		text, ok := questionText(questions[i].Calls)
		if !ok {
			return nil
		}
		asked := elicitation(text)
		if len(questions[i].Calls) > 1 {
			asked.RequestedSchema = denySchema(questions[i].Calls)
		}
		requests[questions[i].Key] = asked
	}
	return requests
}

// denySchema is the form in which a person names the calls to deny.
func denySchema(calls []chain.ApprovalCall) map[string]any {
	places := make([]string, len(calls))
	for i := range calls {
		places[i] = calls[i].StepPath
	}
	return map[string]any{"type": "object", "properties": map[string]any{"deny": map[string]any{"type": "array", "title": "Deny",
		"description": "The steps of the calls to deny. The others are approved.",
		"items":       map[string]any{"type": "string", "enum": places}}}}
}

// update records what the client's user said, and has the task go on once all is said. Responses to anything but what the task asks now are
// ignored, as the extension has it.
func (q *taskRequest) update(ctx context.Context, p *taskParams) (*task, error) {
	run, err := q.run(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	responses := gjson.ParseBytes(p.Responses)
	if !responses.IsObject() {
		return nil, invalidParams("inputResponses must be an object of responses by the keys of inputRequests")
	}
	if form, _ := asksBy(q.session); form && waitsIn(run) {
		questions, _, f := q.now.Engine.OpenQuestions(ctx, p.ID, q.caller)
		if f != nil {
			return nil, taskError(f)
		}
		replies, err := repliesTo(questions, responses)
		if err != nil {
			return nil, err
		}
		if len(replies) > 0 {
			if f := q.now.Engine.Reply(ctx, p.ID, replies, q.caller); f != nil {
				return nil, taskError(f)
			}
		}
	}
	if _, err := q.get(ctx, p.ID); err != nil {
		return nil, err
	}
	return nil, nil
}

// repliesTo returns what responses say to questions. A question that was dismissed stays open.
func repliesTo(questions []chain.OpenQuestion, responses gjson.Result) (map[string]chain.Reply, error) {
	replies := map[string]chain.Reply{}
	var err error
	responses.ForEach(func(key, response gjson.Result) bool {
		isOpen := slices.ContainsFunc(questions, func(q chain.OpenQuestion) bool { return q.Key == key.Str })
		if !isOpen {
			return true
		}
		reply, decides, wrong := replyIn(response)
		if wrong != "" {
			err = invalidParams("inputResponses." + key.Str + wrong)
			return false
		}
		if decides {
			replies[key.Str] = reply
		}
		return true
	})
	return replies, err
}

// replyIn reads the result of an elicitation. decides is false if the question was dismissed; wrong is what is wrong with it.
func replyIn(response gjson.Result) (reply chain.Reply, decides bool, wrong string) {
	switch response.Get("action").Str {
	case "accept":
		reply.Yes = true
	case "decline":
		return reply, true, ""
	case "cancel":
		return reply, false, ""
	default:
		return reply, false, ` must be a result of elicitation/create: its action is "accept", "decline" or "cancel"`
	}
	deny := response.Get("content.deny")
	if deny.Exists() && !deny.IsArray() {
		return reply, false, ".content.deny must be an array of steps"
	}
	for _, place := range deny.Array() {
		if place.Type != gjson.String {
			return reply, false, ".content.deny must be an array of steps, which are strings"
		}
		reply.Deny = append(reply.Deny, place.Str)
	}
	return reply, true, ""
}

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fault.ClipRunes(message, 300)}
}
