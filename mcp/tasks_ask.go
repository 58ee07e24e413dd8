package mcp

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
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
	isRecorded := false
	if form, _ := asksBy(q.session); form && waitsIn(run) {
		err := whileBusy(ctx, func() (*fault.Error, error) {
			questions, _, f := q.now.Engine.OpenQuestions(ctx, p.ID, q.caller)
			if f != nil {
				return f, nil
			}
			replies, err := repliesTo(questions, responses)
			if err != nil || len(replies) == 0 {
				return nil, err
			}
			f = q.now.Engine.Reply(ctx, p.ID, replies, q.caller)
			isRecorded = f == nil
			return f, nil
		})
		if err != nil {
			return nil, err
		}
	}
	_, err = q.get(ctx, p.ID)
	if err != nil && isRecorded { // the client must not take it for lost: the task goes on when it is looked at
		q.now.Log.WarnContext(ctx, "a task could not be read after a reply", "run", p.ID, "error", fault.Message(err))
		err = nil
	}
	return nil, err
}

// repliesTo returns what responses say to questions. A question that was dismissed stays open.
func repliesTo(questions []chain.OpenQuestion, responses gjson.Result) (map[string]chain.Reply, error) {
	replies := map[string]chain.Reply{}
	var err error
	responses.ForEach(func(key, response gjson.Result) bool {
		n := slices.IndexFunc(questions, func(q chain.OpenQuestion) bool { return q.Key == key.Str })
		if n < 0 {
			return true
		}
		reply, decides, wrong := replyIn(response, len(questions[n].Calls) > 1)
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

// replyIn reads the result of an elicitation, whose form has a list of calls to deny if mayDeny is set. decides is false if the question
// was dismissed; wrong is what is wrong with it. What that form does not ask approves nothing: it may be meant to deny some. About a single
// call, the action says all.
func replyIn(response gjson.Result, mayDeny bool) (reply chain.Reply, decides bool, wrong string) {
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
	content := response.Get("content")
	if content.Type != gjson.Null && !content.IsObject() {
		return reply, false, ".content must be an object"
	}
	if isOther := func(name string) bool { return name != "deny" }; mayDeny && rawjson.HasMember([]byte(content.Raw), isOther) {
		return reply, false, ".content must have no member but deny"
	}
	deny := content.Get("deny")
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
