//go:build e2e && unix

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Bounds of the session. What its chains make is several times as much.
const (
	sessionChains     = 1000 // with ONECALL_TEST_SESSION; else a tenth
	maxSessionResults = 2 << 20
	maxSessionJournal = 24 << 20 // of which a write-ahead log of SQLite may have 16 MiB
	maxSessionMemory  = 160 << 20
	pictureBytes      = 128 << 10
)

// The measured sizes in bytes, beside the metrics of the server.
const (
	resultsSize = "results"
	journalSize = "journal"
)

// longSession is the session of one agent with a server that keeps results and journal on disk.
type longSession struct {
	*soak
	client *rawClient
}

// sessionScript is what the agent does again and again. Each entry is a chain, or some that belong together.
var sessionScript = []soakKind{
	{"files", changeFiles},
	{"state", changeState},
	{"pages", func(t *testing.T, s *soak, w *rawClient, n int) error { return readPages(t, s, w, n%300) }}, // of as many pages
	{"picture", keepPicture},
	{"resume", resumeRun},
	{"undo", undoRun},
	{"unchanged", readUnchanged},
	wantText("elements", `{"lite":true,"steps":[{"expr":"$item * 2","forEach":"1..50"}],"return":"$0[49]"}`, "100"),
	wantText("table", `{"format":"auto","steps":[{"expr":"map(1..200, ({id: #, square: # * #}))"}]}`, `"format":"table"`),
	wantText("wrong", `{"steps":[{"expr.evil":{"x":1}}]}`, `"unknown_function"`),
}

// TestLongSession makes a thousand chains in one session, in the time of ONECALL_TEST_SESSION, such as 1h: results on disk, the journal and
// the memory of the server stay within their bounds, and do not grow once the first runs have expired. Without it there are a hundred, at
// once, which prove the bounds alone.
func TestLongSession(t *testing.T) {
	t.Parallel()
	chains, duration := sessionChains/10, time.Duration(0)
	if text := os.Getenv("ONECALL_TEST_SESSION"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil || duration < time.Minute {
			t.Fatalf("ONECALL_TEST_SESSION is %q: write a time of at least a minute, such as 1h", text)
		}
		chains = sessionChains
	}
	s := startSession(t, max(time.Second, duration/10))
	began, samples := time.Now(), map[string][]float64{}
	for n := range chains {
		time.Sleep(time.Until(began.Add(duration * time.Duration(n) / time.Duration(chains))))
		kind := sessionScript[n%len(sessionScript)]
		if err := kind.do(t, s.soak, s.client, n); err != nil && !errors.Is(err, errTransient) {
			t.Fatalf("chain %d, %s: %v", n, kind.name, err)
		}
		for name, value := range s.measure(t) {
			samples[name] = append(samples[name], value)
		}
	}
	limits := map[string]float64{resultsSize: maxSessionResults, journalSize: maxSessionJournal, memoryUsed: maxSessionMemory}
	for name, limit := range limits {
		most := slices.Max(samples[name])
		t.Logf("round: %s at most %.2f MiB", name, most/(1<<20))
		if most > limit && (name != memoryUsed || !raceEnabled) {
			t.Errorf("%s took %.0f bytes, want at most %.0f", name, most, limit)
		}
	}
	if most := slices.Max(samples[resultsSize]); most < maxSessionResults/2 {
		t.Errorf("results took %.0f bytes at most, so their bound was not tried", most)
	}
	if duration > 0 {
		for name := range samples { // in the first fifth, caches fill and no run expires
			samples[name] = samples[name][chains/5:]
		}
		checkGrowth(t, samples, duration*4/5)
	}
}

// startSession starts a server that keeps runs for a time, with a client.
func startSession(t *testing.T, keep time.Duration) *longSession {
	t.Helper()
	pictures := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		random := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%032s", r.URL.RawQuery))))
		picture := make([]byte, pictureBytes)
		_, _ = random.Read(picture) // never fails
		_, _ = w.Write(picture)
	}))
	t.Cleanup(pictures.Close)
	folder := t.TempDir()
	config := writeJSON(t, folder, "onecall.json", map[string]any{
		"access":  map[string]any{"http": "read_write"},
		"http":    map[string]any{"allow": []string{strings.TrimPrefix(pictures.URL, "http://")}},
		"fs":      map[string]any{"root": folder, "write": []string{"."}},
		"results": map[string]any{"store": "disk", "maxBytes": maxSessionResults},
		"journal": map[string]any{"keep": keep.String()},
	})
	s := &soak{measuredServer: serveMeasured(t, config), slow: &slowService{url: pictures.URL}}
	return &longSession{s, stateful(t, s.url)}
}

// measure returns what the server takes now.
func (s *longSession) measure(t *testing.T) sample {
	t.Helper()
	now := s.metric(t, goroutinesUsed, socketsUsed, memoryUsed)
	now[resultsSize] = sizeOf(t, filepath.Join(s.cmd.Dir, "onecall", "results"))
	now[journalSize] = sizeOf(t, filepath.Join(s.cmd.Dir, ".local", "state", "onecall"))
	return now
}

// sizeOf returns the size of all files in a folder.
func sizeOf(t *testing.T, folder string) (bytes float64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				bytes += float64(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // it has just been removed, or the folder is not made yet
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// keepPicture writes a picture to a file, and fetches it by the handle in the answer.
func keepPicture(t *testing.T, s *soak, w *rawClient, n int) error {
	text, err := s.text(t, w, fmt.Sprintf(`{"lite":true,"steps":[{"http.get":{"url":"%s/?%d"},"id":"got"},`+
		`{"fs.write":{"path":"picture-%d.png","data":"$got.body.data"}}],"return":{"picture":"$got.body","size":"$1.size"}}`, s.slow.url, n, n%7))
	if err != nil {
		return err
	}
	token := gjson.Get(text, "picture.data").Str
	if token == "" || gjson.Get(text, "size").Int() != pictureBytes {
		return fmt.Errorf("the answer lacks the picture: %.300s", text)
	}
	text, err = s.text(t, w, fmt.Sprintf(`{"lite":true,"steps":[{"result.get":{"token":%q}},{"expr":"$0.size"}]}`, token))
	return missingText(text, err, fmt.Sprint(pictureBytes))
}

// resumeRun makes a chain that fails after a write, and resumes it with another step.
func resumeRun(t *testing.T, s *soak, w *rawClient, n int) error {
	text, err := s.text(t, w, fmt.Sprintf(`{"steps":[{"fs.write":{"path":"resumed.txt","text":"%d"}},{"expr":"int('none')"}]}`, n))
	if err != nil {
		return err
	}
	run := gjson.Get(text, "resume").Str
	if run == "" {
		return fmt.Errorf("the failure lacks resume: %.300s", text)
	}
	text, err = s.text(t, w, fmt.Sprintf(`{"lite":true,"resume":%q,"replace":{"1":{"expr":"$0.size"}}}`, run))
	return missingText(text, err, fmt.Sprint(len(fmt.Sprint(n))))
}

// undoRun makes a chain that fails after a write, which is undone.
func undoRun(t *testing.T, s *soak, w *rawClient, n int) error {
	text, err := s.text(t, w, fmt.Sprintf(`{"onError":"undo","steps":[{"fs.write":{"path":"undone.txt","text":"%d"}},`+
		`{"expr":"int('none')"}]}`, n))
	return missingText(text, err, `"outcome":"undone"`)
}

// readUnchanged reads a file twice. The second answer says only that it is unchanged.
func readUnchanged(t *testing.T, s *soak, w *rawClient, n int) error {
	lines := strings.Repeat(fmt.Sprint("line ", n, "\n"), 100)
	text, err := s.text(t, w, fmt.Sprintf(`{"steps":[{"fs.write":{"path":"read.txt","text":%q}}]}`, lines))
	if err := missingText(text, err, `"ok":true`); err != nil {
		return err
	}
	for _, want := range []string{`"ok":true`, `"unchanged":true`} {
		text, err = s.text(t, w, `{"ifChanged":true,"steps":[{"fs.cat":{"path":"read.txt"}}]}`)
		if err := missingText(text, err, want); err != nil {
			return err
		}
	}
	return nil
}
