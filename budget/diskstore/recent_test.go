package diskstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/fault"
)

// TestDecodedOnce: a large value that is read repeatedly is decoded once, and decoded again if anything about it has changed. If two reads
// return the same memory, the second one has decoded nothing.
func TestDecodedOnce(t *testing.T) {
	t.Parallel()
	const size = 400_000
	for name, test := range map[string]struct {
		maximum int64
		size    int
		do      func(t *testing.T, s *diskstore.Store, dir string) // what happens between two reads
		same    bool
	}{
		"again":                       {0, size, func(*testing.T, *diskstore.Store, string) {}, true},
		"after its life was extended": {0, size, extend, true},
		"within the bound": {1_000_000, size,
			func(t *testing.T, s *diskstore.Store, _ string) { fill(t, s, "b", size); value(t, s, "b") }, true},
		"small":                 {0, 100_000, func(*testing.T, *diskstore.Store, string) {}, false},
		"holding disabled":      {-1, size, func(*testing.T, *diskstore.Store, string) {}, false},
		"larger than the bound": {300_000, size, func(*testing.T, *diskstore.Store, string) {}, false},
		"evicted": {1_000_000, size, func(t *testing.T, s *diskstore.Store, _ string) {
			for _, key := range []string{"b", "c"} {
				fill(t, s, key, size)
				value(t, s, key)
			}
		}, false},
		"put again": {0, size, func(t *testing.T, s *diskstore.Store, _ string) { fill(t, s, "a", size) }, false},
		"put again by another process": {0, size, func(t *testing.T, _ *diskstore.Store, dir string) {
			fill(t, openWith(t, dir, 0), "a", size)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openWith(t, dir, test.maximum)
			fill(t, s, "a", test.size)
			first := value(t, s, "a")
			test.do(t, s, dir)
			second := value(t, s, "a")
			if same := unsafe.SliceData(first) == unsafe.SliceData(second); same != test.same || string(first) != string(second) {
				t.Errorf("both reads return the same memory: %t, want %t", same, test.same)
			}
			if cap(second) != len(second) && test.same {
				t.Errorf("the value of %d bytes has capacity %d, want no spare capacity", len(second), cap(second))
			}
		})
	}
}

// TestDecodedIsOfSameVersion: a file that differs from the decoded one only in its content is another version.
func TestDecodedIsOfSameVersion(t *testing.T) {
	t.Parallel()
	s := openWith(t, t.TempDir(), 0)
	now := time.Now()
	for i := range 10 {
		e := budget.Entry{Owner: "o", Created: now, Expires: now.Add(time.Hour), Value: document(400_000)}
		e.Value[200_000] = byte('0' + i)
		check(t, s.Put(context.Background(), "a", e))
		if got := value(t, s, "a")[200_000]; got != byte('0'+i) {
			t.Fatalf("read version %c, want %d", got, i)
		}
	}
}

// TestDecodedIsStillStored: a decoded value is not returned after its file was removed, was damaged or has expired.
func TestDecodedIsStillStored(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, s *diskstore.Store, file string){
		"deleted": func(t *testing.T, s *diskstore.Store, _ string) {
			check(t, s.Delete(context.Background(), "a"))
		},
		"removed": func(t *testing.T, _ *diskstore.Store, file string) { check(t, os.Remove(file)) },
		"cut":     func(t *testing.T, _ *diskstore.Store, file string) { check(t, os.Truncate(file, 1000)) },
		"expired": func(t *testing.T, s *diskstore.Store, _ string) {
			check(t, s.Touch(context.Background(), "a", time.Now().Add(-time.Second)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openWith(t, dir, 0)
			fill(t, s, "a", 400_000)
			value(t, s, "a")
			files, err := filepath.Glob(filepath.Join(dir, "*.onecall"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %q, %v; want one", files, err)
			}
			do(t, s, files[0])
			if e, err := s.Get(context.Background(), "a", nil); !errors.Is(err, budget.ErrNotFound) {
				t.Errorf("Get returned %d bytes, %v; want ErrNotFound", len(e.Value), err)
			}
		})
	}
}

// TestDecodedIsReleased: after a minute without a read nothing is held, and values can still be read.
func TestDecodedIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openWith(t, t.TempDir(), 0)
		fill(t, s, "a", 400_000)
		first := value(t, s, "a")
		for range 3 { // a read restarts the minute
			time.Sleep(45 * time.Second)
			if unsafe.SliceData(value(t, s, "a")) != unsafe.SliceData(first) {
				t.Error("the value was decoded again within the minute")
			}
		}
		time.Sleep(61 * time.Second)
		second := value(t, s, "a")
		if unsafe.SliceData(second) == unsafe.SliceData(first) || unsafe.SliceData(value(t, s, "a")) != unsafe.SliceData(second) {
			t.Error("the decoded value was held for more than a minute, or not held again")
		}
	})
}

func TestMaxDecodedIsChecked(t *testing.T) {
	t.Parallel()
	_, err := diskstore.Open(t.TempDir(), &diskstore.Options{MaxDecoded: -2})
	if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest {
		t.Errorf("got %v, want bad_request", err)
	}
}

func openWith(t *testing.T, dir string, maximum int64) *diskstore.Store {
	t.Helper()
	s, err := diskstore.Open(dir, &diskstore.Options{MaxDecoded: maximum})
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func fill(t *testing.T, s *diskstore.Store, key string, size int) {
	t.Helper()
	now := time.Now()
	check(t, s.Put(context.Background(), key, budget.Entry{Owner: "o", Created: now, Expires: now.Add(time.Hour), Value: document(size)}))
}

func value(t *testing.T, s *diskstore.Store, key string) []byte {
	t.Helper()
	e, err := s.Get(context.Background(), key, nil)
	check(t, err)
	return e.Value
}

func extend(t *testing.T, s *diskstore.Store, _ string) {
	t.Helper()
	check(t, s.Touch(context.Background(), "a", time.Now().Add(2*time.Hour)))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
