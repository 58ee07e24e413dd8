package tables

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// service serves handler on loopback until stop is called.
func service(ctx context.Context, handler http.Handler) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(listener) }() // ends with stop
	return "http://" + listener.Addr().String(), func() { _ = s.Close() }, nil
}

// file writes a file to the folder of this run.
func (b *bench) file(name string, content []byte) (path string, err error) {
	path = filepath.Join(b.folder, name)
	return path, os.WriteFile(path, content, 0o600)
}
