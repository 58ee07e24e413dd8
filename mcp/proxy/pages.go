package proxy

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// storedList is a joined list that is kept while a client reads its pages.
type storedList struct {
	items  []json.RawMessage
	expiry *time.Timer
}

// storeList keeps a list for the requests of its next pages, for pagesTime.
func (l *sessions) storeList(method string, items []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.storedLists[method]; old != nil {
		old.expiry.Stop()
	}
	now := &storedList{items: items}
	now.expiry = time.AfterFunc(pagesTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.storedLists[method] == now {
			delete(l.storedLists, method)
		}
	})
	l.storedLists[method] = now
}

// storedItems returns the items of the list that storeList keeps; nil: none.
func (l *sessions) storedItems(method string) []json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.storedLists[method]; now != nil {
		return now.items
	}
	return nil
}

func cursorOf(offset int, method string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset) + " " + method))
}

// offsetOf returns the offset that a cursor stands for; "" is 0. It returns false if cursorOf did not make the cursor for this method.
func offsetOf(cursor, method string) (int, bool) {
	if cursor == "" {
		return 0, true
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	number, cursorMethod, _ := strings.Cut(string(text), " ")
	offset, err := strconv.Atoi(number)
	return offset, err == nil && offset > 0 && cursorMethod == method
}
