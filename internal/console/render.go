package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

//go:embed view
var views embed.FS

type pageTemplate = *template.Template

// parsePages parses each page within the layout.
func parsePages() map[string]pageTemplate {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(views, "view/layout.html", "view/parts/*.html"))
	names, _ := fs.Glob(views, "view/*.html") // the pattern is valid
	pages := map[string]pageTemplate{}
	for _, name := range names {
		if name != "view/layout.html" {
			pages[strings.TrimSuffix(path.Base(name), ".html")] = template.Must(template.Must(layout.Clone()).ParseFS(views, name))
		}
	}
	return pages
}

// functions are what templates call.
var functions = template.FuncMap{
	"number":   number,
	"count":    count,
	"duration": duration,
	"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"text":     visible,
	"brief":    func(value []byte) string { return visible(fault.ClipRunes(string(value), maxBrief)) },
	"asset":    addressOf,
	"whole":    func(text string) string { return string(rawjson.Visible([]byte(text))) },
}

// number spells a whole number of any type.
func number(n any) string { return figure.Text(float64(reflect.ValueOf(n).Int())) }

// count spells a number of things, whose plural ends with s.
func count(n any, what string) string {
	if text := number(n); text != "1" {
		return text + " " + what + "s"
	}
	return "1 " + what
}

// duration spells milliseconds.
func duration(ms float64) string {
	switch d := time.Duration(ms * float64(time.Millisecond)); {
	case ms < 1:
		return "<1 ms"
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	default:
		return d.Round(time.Second).String()
	}
}

// layout is what the layout shows around a page.
type layout struct {
	Title    string
	Page     string // the name of the page's template
	Viewer   *Viewer
	Form     string // the key of the viewer's forms, and what is of this page only
	Self     string // the address of the page
	Events   string // where its stream of events is
	Live     bool   // it keeps itself up to date
	Waiting  string // how many runs wait for approval; "": none
	Serves   bool   // see Backend.Serves
	CanLogin bool   // the viewer logged in with a token, and can log out
	Data     any
}

// show renders a page. A page that cannot be rendered is a defect, and nothing of it is sent.
func (c *console) show(w http.ResponseWriter, r *request, p *page) {
	l := &layout{Title: p.title, Page: p.template, Data: p.data, CanLogin: c.Link == nil}
	if r.viewer != nil {
		l.Serves = r.Serves
		l.Viewer, l.Form, l.Waiting = r.viewer, r.formKey()+"."+rand.Text(), r.countWaiting()
	}
	l.Self, l.Live, l.Events = r.URL.RequestURI(), p.live != "", Path+"events"
	switch p.live {
	case liveAll:
	case "":
		l.Events += "?" + onStill
	case liveSources:
		l.Events += "?" + onSources
	default:
		l.Events += "?run=" + url.QueryEscape(p.live)
	}
	status := cmp.Or(p.status, http.StatusOK)
	if f, is := p.data.(*fault.Error); is && f != nil && p.status == 0 {
		status = f.Code.HTTP()
	}
	var out bytes.Buffer
	if err := c.pages[p.template].Execute(&out, l); err != nil {
		c.Log.ErrorContext(r.Context(), "a page of the console cannot be shown", "page", p.template, "error", err)
		http.Error(w, "a defect of onecall: the page cannot be shown", http.StatusInternalServerError)
		return
	}
	if p.next != "" {
		w.Header().Set("Refresh", "0; url="+p.next)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writeCompressed(w, r.Request, status, out.Bytes())
}

// writeCompressed writes a body, compressed if the browser takes it.
func writeCompressed(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if len(body) > 1000 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed) // the level is valid
		_, _ = z.Write(body)                                // a buffer takes everything
		_ = z.Close()
		body = small.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the browser has left
}

// withHeaders adds the headers that bound what a page may do: its own scripts and styles only, and no frame around it.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // without any, forms have the Origin null
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// picture is a picture of package draw, as a template takes it.
func picture(svg []byte) template.HTML { return template.HTML(svg) }

// visible makes control characters and marks of direction in a text visible. What is longer than maxText is cut.
func visible(text string) string {
	return string(rawjson.Visible([]byte(fault.Clip(text, maxText))))
}

// maxBrief bounds a value in a table, in characters.
const maxBrief = 200

// maxText bounds a text on a page, in characters.
const maxText = 20_000
