package cli

import (
	"io"
	"sync"
)

// clearLine moves to the start of the line and clears it.
const clearLine = "\r\x1b[K"

// statusLine is the error output of a terminal whose last line may show progress. Writing anything else clears that line first.
type statusLine struct {
	mu    sync.Mutex
	w     io.Writer
	shown bool
}

// Write implements io.Writer.
func (s *statusLine) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.clear(); err != nil {
		return 0, err
	}
	return s.w.Write(text)
}

// show draws the line over the current one. Errors of drawing are ignored.
func (s *statusLine) show(draw func(io.Writer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	draw(s.w)
	s.shown = true
}

// hide clears the line if it is shown.
func (s *statusLine) hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.clear()
}

func (s *statusLine) clear() error {
	if !s.shown {
		return nil
	}
	s.shown = false
	_, err := io.WriteString(s.w, clearLine)
	return err
}
