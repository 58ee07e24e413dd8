package app

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchChanged: a change is reported once the files are stable. Touching a file or restoring its content is no change.
func TestWatchChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	save := func(text string, at time.Time) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		save("one", began)
		w := NewWatch([]string{path, ""}, []string{dir})
		before := w.State()
		go func() {
			time.Sleep(time.Second)
			save("one", began.Add(time.Hour)) // only touched
			time.Sleep(time.Second)
			for i := range 20 { // it changes with each poll
				save("half", began.Add(time.Duration(i)*time.Minute))
				time.Sleep(watchInterval / 2)
			}
			save("two", began.Add(2*time.Hour))
		}()
		now, ok := w.Changed(t.Context(), before)
		if elapsed := time.Since(began); !ok || elapsed < 2*time.Second+10*watchInterval {
			t.Errorf("changed: %t after %v, want a change once the file is stable", ok, elapsed)
		}
		if !now.Equal(w.State()) || now.Equal(before) {
			t.Error("Changed does not return the current state")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, ok = w.Changed(t.Context(), now); !ok {
			t.Error("the removal of a file is not reported")
		}
		synctest.Wait()
	})
}
