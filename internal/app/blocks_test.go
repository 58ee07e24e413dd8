package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
)

// photoService serves a photo, and keeps what is uploaded to it.
type photoService struct {
	photo []byte

	mu       sync.Mutex
	uploaded map[string][]byte // by path, and the file name of a form
}

func (s *photoService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, body := r.URL.Path+" "+r.Header.Get("Content-Type"), r.Body
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(s.photo)
		return
	}
	if file, header, err := r.FormFile("file"); err == nil {
		name, body = r.URL.Path+" "+header.Filename+" of "+r.FormValue("title"), file
	}
	data, _ := io.ReadAll(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploaded[name] = data
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"stored":true}`))
}

const photoDocument = `{"openapi":"3.0.3","info":{"title":"photos","version":"1"},"servers":[{"url":"SERVER"}],"paths":{
	"/photo":{"get":{"operationId":"getPhoto","responses":{"200":{"description":"ok","content":{"*/*":{"schema":{"type":"string","format":"binary"}}}}}}},
	"/form":{"post":{"operationId":"sendForm","requestBody":{"content":{"multipart/form-data":{"schema":{"type":"object","properties":{
		"title":{"type":"string"},"file":{"type":"string","format":"binary"}}}}}},"responses":{"200":{"description":"ok"}}}},
	"/bytes":{"put":{"operationId":"sendBytes","requestBody":{"content":{"image/png":{"schema":{"type":"string","format":"binary"}}}},
		"responses":{"200":{"description":"ok"}}}}}}`

// TestBytesBetweenSources: a photo goes byte for byte from HTTP to a file, from that to an API and to HTTP, and its write is taken back.
func TestBytesBetweenSources(t *testing.T) {
	t.Parallel()
	photo := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 3<<20)...)
	random := rand.NewChaCha8([32]byte{7})
	_, _ = random.Read(photo[8:])
	service := &photoService{photo: photo, uploaded: map[string][]byte{}}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write(t, folder, "photos.json", strings.ReplaceAll(photoDocument, "SERVER", server.URL))
	path := write(t, folder, "onecall.yaml", fmt.Sprintf("fs: {root: %q, write: [.]}\nhttp: {allow: [%q]}\nopenapi: {photos: {spec: photos.json, baseUrl: %q}}\n",
		folder, strings.TrimPrefix(server.URL, "http://"), server.URL))
	p := processOf(Options{Config: path}, serverTraits{})
	a, err := p.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.close(), p.close() })
	run := func(request string) *chain.Answer {
		t.Helper()
		answer := a.Engine.Run(context.Background(), []byte(strings.ReplaceAll(request, "SERVER", server.URL)), &chain.Caller{Functions: a.Catalog})
		if !answer.OK {
			t.Fatalf("%s answers %.2000s", request, answer.JSON)
		}
		return answer
	}
	answer := run(`{"steps":[
		{"http.get":{"url":"SERVER/photo"},"id":"got"},
		{"fs.write":{"path":"photo.png","data":"$got.body.data"}},
		{"fs.cat":{"path":"photo.png"},"id":"read"},
		{"photos.photo.get":{},"id":"api"},
		{"photos.form.create":{"title":"mine","file":{"name":"p.png","data":"$read.data"}}},
		{"photos.byte.bulk_replace":{"body":"$api.data"}},
		{"http.request":{"method":"POST","url":"SERVER/raw","bodyBase64":"$read.data"}}],
		"return":["$got.body.type","$read.mimeType","$read.size","$api.size"],"lite":true}`)
	if want := fmt.Sprintf(`["image","image/png",%d,%[1]d]`, len(photo)); string(answer.JSON) != want {
		t.Errorf("got %.500s, want %s", answer.JSON, want)
	}
	written, err := os.ReadFile(filepath.Join(folder, "photo.png"))
	if err != nil || !bytes.Equal(written, photo) {
		t.Errorf("the file has %d bytes, %v: not the photo", len(written), err)
	}
	for _, name := range []string{"/form p.png of mine", "/bytes image/png", "/raw image/png"} {
		if !bytes.Equal(service.uploaded[name], photo) {
			t.Errorf("%s got %d bytes, not the photo", name, len(service.uploaded[name]))
		}
	}
	if len(service.uploaded) != 3 {
		t.Errorf("%d uploads, want 3", len(service.uploaded))
	}
	failed := a.Engine.Run(context.Background(), []byte(`{"onError":"undo","steps":[
		{"http.request":{"method":"GET","url":"`+server.URL+`/photo"},"id":"got"},
		{"fs.write":{"path":"other.png","data":"$got.body.data"}},
		{"fs.cat":{"path":"missing"}}]}`), &chain.Caller{Functions: a.Catalog})
	if _, err := os.Stat(filepath.Join(folder, "other.png")); failed.OK || !os.IsNotExist(err) {
		t.Errorf("the write was not undone: %v, %.500s", err, failed.JSON)
	}
}
