package mcp

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// The SDK reads the events of a stream unchanged, however the stream is split.
func TestEventsPassUnchanged(t *testing.T) {
	t.Parallel()
	s := newSource(Options{Name: "s", URL: "http://h", MaxMessageBytes: 4096, Warn: func(*fault.Error) {}})
	rapid.Check(t, func(t *rapid.T) {
		var stream strings.Builder
		var want []string
		for i := range rapid.IntRange(0, 8).Draw(t, "events") {
			data := fmt.Sprintf(`{"jsonrpc":"2.0","method":"m","params":{"n":%d,"x":"%s"}}`, i,
				strings.Repeat("y", rapid.OneOf(rapid.IntRange(0, 3900), rapid.IntRange(9000, 20_000)).Draw(t, "length")))
			newline := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline")
			stream.WriteString(rapid.SampledFrom([]string{"", ": hello" + newline + newline, "event: message" + newline, "data" + newline}).Draw(t,
				"before"))
			half := strings.Index(data, `,"params"`)
			if rapid.Bool().Draw(t, "two lines") {
				stream.WriteString("data: " + data[:half+1] + newline + "data:" + data[half+1:] + newline + newline)
				data = data[:half+1] + " " + data[half+1:]
			} else {
				stream.WriteString("data: " + data + newline + newline)
			}
			if len(data) < 4096 {
				want = append(want, data)
			}
		}
		body := io.NopCloser(&pieceReader{text: stream.String(), size: rapid.IntRange(1, 3000).Draw(t, "piece")})
		out, err := io.ReadAll(newEventBody(body, newTap(s), nil, 0, &s.options))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		lines := bufio.NewScanner(strings.NewReader(string(out)))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				got = append(got, data)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("got %.300q\nwant %.300q\nof %.300q", got, want, stream.String())
		}
	})
}

// pieceReader is a reader that returns a few bytes at a time.
type pieceReader struct {
	text string
	size int
}

func (p *pieceReader) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}
