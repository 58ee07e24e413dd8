package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/internal/porttest"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// certificate writes a self-signed certificate for a host and its key to a folder.
func certificate(t *testing.T, dir, host string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}, IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true,
		BasicConstraintsValid: true}
	if template.IPAddresses[0] == nil {
		template.IPAddresses = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, data := range map[string][]byte{"cert": public, "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trusted := certificate(t, dir, "127.0.0.1")
	port := porttest.Reserve(t)
	server := redistest.Start(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert"), "--tls-key-file",
		filepath.Join(dir, "key"), "--tls-auth-clients", "no")
	url := "rediss://127.0.0.1:" + port

	s := open(t, redisstore.Options{URL: url, TLS: &tls.Config{RootCAs: trusted}, Timeout: time.Minute})
	for range 3 {
		var users sync.WaitGroup
		for range 30 {
			users.Go(func() { wantNoErrors(t, s) })
		}
		users.Wait()
		server.Kill()
		server.Restart()
		wantNoErrors(t, s)
	}
	large := entry(time.Now(), incompressible(5<<20))
	put(t, s, "large", large)
	if e, err := s.Get(t.Context(), "large", nil); err != nil || string(e.Value) != string(large.Value) {
		t.Errorf("Get of a large value over TLS: %d bytes, %v; want the %d that were put", len(e.Value), err, len(large.Value))
	}

	wantUnavailable(t, open(t, redisstore.Options{URL: url}), "not from an authority")
	wantUnavailable(t, open(t, redisstore.Options{URL: url, TLS: &tls.Config{RootCAs: trusted, ServerName: "elsewhere.example"}}),
		"for another host")
	wantUnavailable(t, open(t, redisstore.Options{URL: "rediss://" + server.Address(), TLS: &tls.Config{RootCAs: trusted},
		Timeout: 200 * time.Millisecond}), server.Address())
	wantUnavailable(t, open(t, redisstore.Options{URL: "redis://127.0.0.1:" + port, Timeout: 200 * time.Millisecond}), port)
}
