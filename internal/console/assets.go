package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/internal/draw"
)

//go:embed assets
var assets embed.FS

// asset is a file of assets, as it is sent.
type asset struct{ body, tag string }

// loadAssets returns the assets by their names. The tag of one changes with its content.
var loadAssets = sync.OnceValue(func() map[string]asset {
	names, _ := fs.Glob(assets, "assets/*") // the pattern is valid
	all := map[string]asset{}
	add := func(name string, body []byte) {
		sum := sha256.Sum256(body)
		all[name] = asset{string(compress(body)), hex.EncodeToString(sum[:8])}
	}
	for _, name := range names {
		body, _ := assets.ReadFile(name) // it is embedded
		add(path.Base(name), body)
	}
	add("draw.css", []byte(draw.Stylesheet()))
	return all
})

// addressOf returns the address of an asset, which changes with its content, so that browsers may keep it.
func addressOf(name string) string { return Path + "assets/" + name + "?" + loadAssets()[name].tag }

// serveAsset serves a file of assets, compressed, which all browsers take.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file, found := loadAssets()[name]
	if !found {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Content-Encoding", "gzip")
	h.Set("ETag", `"`+file.tag+`"`)
	if h.Set("Cache-Control", "no-cache"); r.URL.RawQuery == file.tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(file.body))
}

// compress compresses as well as it can.
func compress(body []byte) []byte {
	var small bytes.Buffer
	z, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // the level is valid
	_, _ = z.Write(body)                                      // a buffer takes everything
	_ = z.Close()
	return small.Bytes()
}
