package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of the forms of actions, in bytes. Those above smallForm count until they are answered: all of them together may have maxForms,
// and one viewer's as much as they leave to the others.
const (
	smallForm = 64 << 10
	maxForm   = 8 << 20
	maxForms  = 64 << 20
)

// formKey returns what the forms of a viewer carry, so that no other page can send them.
func (r *request) formKey() string {
	mac := hmac.New(sha256.New, []byte(r.credential))
	mac.Write([]byte("onecall console form"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// readForm reads the form of an action, and fails unless it comes from a page of the viewer. The caller must call release when the request
// has been answered, also after an error.
func (r *request) readForm() (release func(), err error) {
	release = func() {}
	size := r.ContentLength
	if size < 0 || size > maxForm {
		size = maxForm
	}
	if forms := &r.console.forms; size > smallForm {
		if !forms.Hold(r.viewer.ID, size, maxForms) {
			return release, fault.New(fault.Busy, "too much is being sent at once: try again in a moment")
		}
		release = func() { forms.Hold(r.viewer.ID, -size, maxForms) }
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	err = r.ParseForm()
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return release, fault.New(fault.LimitExceeded, "the form has more than %d bytes: onecall run and onecall resume take a longer chain from a file",
			tooLong.Limit)
	}
	if err != nil {
		return release, fault.New(fault.BadRequest, "the form cannot be read: %v", err)
	}
	key, _, _ := strings.Cut(r.PostForm.Get("form"), ".") // what follows is of one page; see actKey
	if subtle.ConstantTimeCompare([]byte(key), []byte(r.formKey())) != 1 {
		return release, fault.New(fault.Denied, "this form has expired or comes from another page: go back, load the page again, and send it again")
	}
	return release, nil
}
