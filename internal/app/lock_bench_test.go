package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/lock"
)

// BenchmarkCheckLock compares 100 saved chains of ten steps with a lock of 5,000 functions, of which every second one has changed. The
// sources are ready: how long these take to start is not counted.
func BenchmarkCheckLock(b *testing.B) {
	folder := b.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	document := func(more string) string {
		var text strings.Builder
		text.WriteString(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{`)
		for i := range 5000 {
			if i > 0 {
				text.WriteString(",")
			}
			one := ""
			if i%2 == 0 {
				one = more
			}
			fmt.Fprintf(&text, `"/part%04d/things":{"get":{"summary":"Lists the things of %d.","parameters":[{"name":"limit","in":"query","schema":`+
				`{"type":"integer","maximum":100}},{"name":"filter","in":"query","schema":{"type":"string","description":"What to list."}}%s],`+
				`"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","properties":{"items":{"type":`+
				`"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}}}}}}}}}}}}`, i+1, i+1, one)
		}
		text.WriteString("}}")
		return text.String()
	}
	write("onecall.yaml", "openapi: {s: {spec: s.json, baseUrl: 'https://s.example.com'}}\n")
	for i := range 100 {
		var steps []string
		for j := range 10 { // numbers from 3 on: the first of the document has another name
			steps = append(steps, fmt.Sprintf(`{"s.part%04d.thing.list":{"limit":5,"filter":"$input.q"}}`, i*50+j*5+3))
		}
		write(fmt.Sprintf("chains/c%03d.chain.json", i),
			`{"params":{"q":{"type":"string"}},"steps":[`+strings.Join(steps, ",")+`],"return":"$9.items[*].name"}`)
	}
	open := func() *App {
		a, err := Open(b.Context(), &Options{Reporter: silent{}, Redactor: &Redactor{}, Unlocked: true,
			Config: filepath.Join(folder, "onecall.yaml")})
		if err != nil {
			b.Fatal(err)
		}
		return a
	}
	write("s.json", document(""))
	before := open()
	locked := &lock.File{All: true}
	for _, fn := range before.Lockable(b.Context()).Functions {
		locked.Set(*fn)
	}
	if err := before.Close(); err != nil {
		b.Fatal(err)
	}
	write("onecall.lock", string(locked.Text()))
	write("s.json", document(`,{"name":"sort","in":"query","required":true,"schema":{"type":"string"}}`))
	a := open()
	defer a.Close()
	broken := 0
	for b.Loop() {
		l, f := ReadLock(filepath.Join(folder, "onecall.lock"))
		if f != nil {
			b.Fatal(f)
		}
		verdicts, err := a.CheckLock(context.Background(), l)
		if err != nil || len(verdicts) != 100 || len(l.Functions) < 5000 {
			b.Fatalf("%d verdicts by a lock of %d functions: %v", len(verdicts), len(l.Functions), err)
		}
		broken = 0
		for i := range verdicts {
			if len(verdicts[i].Breaks) > 0 {
				broken++
			}
		}
	}
	if broken != 100 {
		b.Errorf("%d chains broken, want 100: each calls changed functions", broken)
	}
}
