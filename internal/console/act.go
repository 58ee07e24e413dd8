package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// act is a request that a viewer has sent, and its answer.
type act struct {
	Title  string
	Run    string // the run that it continues; "": it begins one
	Text   string // a chain that the viewer wrote, to be changed; "": none, or it is too long to be kept
	Back   string // the path below Path of the page on which Text is changed; "": the playground
	undoes bool   // it undoes Run
	key    string
	ended  chan struct{} // closed when answer and err are set
	answer *chain.Answer
	err    error
}

// acts are the acts that go on, and the newest others of each viewer. They are kept in this process only: what was done is in the journal.
type acts struct {
	mu   sync.Mutex
	list map[string][]*act // by viewer
}

const (
	maxActs    = 100             // how many acts of a viewer are kept that have ended
	maxWritten = 100_000         // bytes of the text of an act
	patience   = 2 * time.Second // how long a page waits for the end of an act
)

// start carries out a request without waiting for its end, which the page of the act shows. The request goes on if the viewer leaves.
func (r *request) start(title, run string, text []byte, override chain.Override) (*page, error) {
	return r.startAct(&act{Title: title, Run: run}, "", text, override)
}

// startAct is start for an act with a title; name is that of the chain in lists of runs if the request has none.
func (r *request) startAct(a *act, name string, text []byte, override chain.Override) (*page, error) {
	done, ok := r.console.busy.acquire(r.viewer.ID)
	if !ok {
		return nil, tooBusy()
	}
	ctx, end, refused := r.console.Begin(r.Context())
	if refused != nil {
		done()
		return nil, refused
	}
	a.key, a.ended = r.actKey(), make(chan struct{})
	if !r.console.acts.add(r.viewer.ID, a) { // the form was sent twice
		end()
		done()
		return &page{redirect: "acts/" + a.key}, nil
	}
	later := &request{Backend: r.console.Backend(), viewer: r.viewer, log: r.log, console: r.console} // that of r is released with its answer
	go func() {
		defer end()
		defer done()
		defer close(a.ended)
		if later.Release != nil {
			defer later.Release()
		}
		a.answer, a.err = later.runNamed(ctx, name, text, override)
	}()
	return &page{redirect: "acts/" + a.key}, nil
}

// actKey returns the key of what the form of the request does: it is another one for each page that was shown, and for each text that is
// written there, and the same if the form is sent again.
func (r *request) actKey() string {
	sum := sha256.Sum256([]byte(r.URL.Path + "\n" + r.PostForm.Encode()))
	return hex.EncodeToString(sum[:16])
}

// sentBefore returns the page of what the form of the request has begun already; nil: it has begun nothing.
func (r *request) sentBefore() *page {
	if r.Method != http.MethodPost || r.console.acts.find(r.actKey(), r.viewer.ID) == nil {
		return nil
	}
	return &page{redirect: "acts/" + r.actKey()}
}

// actView is the page of an act.
type actView struct {
	*act
	Goes   bool // it has not ended
	Faults []*fault.Error
	Answer *answerView
	Whole  string // what the caller of the run would read
}

// find returns an act of a viewer; nil: it is not kept.
func (l *acts) find(key, viewer string) *act {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(key, viewer)
}

// get is find for a caller that holds mu.
func (l *acts) get(key, viewer string) *act {
	for _, a := range l.list[viewer] {
		if a.key == key {
			return a
		}
	}
	return nil
}

// add keeps an act of a viewer, unless there is one with its key, and drops the oldest of those that have ended.
func (l *acts) add(viewer string, added *act) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.get(added.key, viewer) != nil {
		return false
	}
	if l.list == nil {
		l.list = map[string][]*act{}
	}
	l.list[viewer] = append(l.list[viewer], added)
	over := -maxActs
	for _, a := range l.list[viewer] {
		if a.hasEnded() {
			over++
		}
	}
	l.list[viewer] = slices.DeleteFunc(l.list[viewer], func(a *act) bool {
		if over <= 0 || !a.hasEnded() {
			return false
		}
		over--
		return true
	})
	return true
}

func (a *act) hasEnded() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// showAct shows the answer to what the viewer sent.
func showAct(r *request) (*page, error) {
	a := r.console.acts.find(r.PathValue("act"), r.viewer.ID)
	if a == nil {
		return nil, fault.New(fault.TokenExpired, "this answer is not kept any more: the page of the run says what was done")
	}
	v := &actView{act: a}
	select {
	case <-a.ended:
	case <-time.After(patience):
		v.Goes = true
		return &page{template: "act", title: a.Title, data: v, live: cmp.Or(a.Run, liveAll)}, nil
	}
	if a.err != nil {
		return nil, a.err
	}
	v.Faults, v.Answer = a.answer.Faults, r.answerOf(a.answer)
	if a.undoes {
		v.Answer.Stay = stayed(a.answer.JSON)
	}
	v.Answer.Run = cmp.Or(v.Answer.Run, a.Run)
	if a.Text == "" { // it is saved, or it is that of an earlier run
		v.Answer.Save = ""
	}
	v.Whole = readable(gjson.ParseBytes(history.Shown(a.answer.AsJSON(), r.Scrubber)))
	return &page{template: "act", title: a.Title, data: v}, nil
}
