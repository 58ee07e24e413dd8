package httpcall

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCheckResolved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		host, resolved string
		want           fault.Code
	}{
		{"example.com", "93.184.216.34:443", ""},
		{"example.com", "[2606:2800:220:1::1]:443", ""},
		{"example.com", "[::ffff:93.184.216.34]:443", ""},
		{"example.com", "127.0.0.1:80", fault.Denied},
		{"example.com", "127.9.9.9:80", fault.Denied},
		{"example.com", "[::1]:80", fault.Denied},
		{"example.com", "[::ffff:127.0.0.1]:80", fault.Denied},
		{"example.com", "[::ffff:10.0.0.1]:80", fault.Denied},
		{"example.com", "0.0.0.0:80", fault.Denied},
		{"example.com", "[::]:80", fault.Denied},
		{"example.com", "10.1.2.3:80", fault.Denied},
		{"example.com", "172.16.0.1:80", fault.Denied},
		{"example.com", "192.168.1.1:80", fault.Denied},
		{"example.com", "100.64.0.1:80", fault.Denied},      // shared by carriers
		{"example.com", "100.100.100.200:80", fault.Denied}, // metadata, Alibaba
		{"example.com", "169.254.169.254:80", fault.Denied}, // metadata, most clouds
		{"example.com", "168.63.129.16:80", fault.Denied},   // metadata, Azure
		{"example.com", "192.0.0.192:80", fault.Denied},     // metadata, Oracle
		{"example.com", "[fd00:ec2::254]:80", fault.Denied}, // metadata, AWS
		{"example.com", "[fe80::1%eth0]:80", fault.Denied},
		{"example.com", "[fc00::1]:80", fault.Denied},
		{"example.com", "[fec0::1]:80", fault.Denied},
		{"example.com", "[ff02::1]:80", fault.Denied},
		{"example.com", "[64:ff9b::7f00:1]:80", fault.Denied},  // NAT64
		{"example.com", "[64:ff9b:1::a00:1]:80", fault.Denied}, // NAT64, local
		{"example.com", "[2002:7f00:1::]:80", fault.Denied},    // 6to4
		{"example.com", "[2001:0:7f00:1::]:80", fault.Denied},  // Teredo
		{"example.com", "[::127.0.0.1]:80", fault.Denied},      // IPv4-compatible
		{"example.com", "[2001:db8::1]:80", fault.Denied},      // documentation
		{"example.com", "224.0.0.1:80", fault.Denied},          // multicast
		{"example.com", "255.255.255.255:80", fault.Denied},    // broadcast
		{"example.com", "198.18.0.1:80", fault.Denied},         // benchmarks
		{"example.com", "not an address", fault.Denied},        // whatever that is
		{"127.0.0.1", "127.0.0.1:8080", ""},                    // an entry is that address
		{"::1", "[::1]:8080", ""},                              //
		{"10.0.0.1", "10.0.0.1:80", ""},                        //
		{"10.0.0.1", "10.0.0.2:80", fault.Denied},              //
		{"localhost", "127.0.0.1:8080", ""},                    //
		{"localhost", "[::1]:8080", ""},                        //
		{"localhost", "10.0.0.1:8080", fault.Denied},           // a resolver that lies
		{"a.localhost", "127.0.0.1:8080", fault.Denied},        //
	}
	for _, test := range tests {
		if err := checkResolved(test.host, test.resolved); fault.CodeOf(err) != test.want {
			t.Errorf("%s at %s: %v, want %q", test.host, test.resolved, err, test.want)
		}
	}
}

// fakeDNS answers every question for an address with what its function says, over the stream that the resolver dials.
func fakeDNS(answer func(name string) netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			var size [2]byte
			for {
				if _, err := io.ReadFull(server, size[:]); err != nil {
					return
				}
				packet := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(server, packet); err != nil {
					return
				}
				var message dnsmessage.Message
				if message.Unpack(packet) != nil || len(message.Questions) != 1 {
					return
				}
				question := message.Questions[0]
				message.Response, message.Additionals = true, nil
				header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 0}
				switch ip := answer(strings.TrimSuffix(question.Name.String(), ".")); {
				case question.Type == dnsmessage.TypeA && ip.Is4():
					message.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}}}
				case question.Type == dnsmessage.TypeAAAA && ip.Is6():
					message.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}}}
				}
				packed, err := message.Pack()
				if err != nil {
					return
				}
				if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

// TestRebinding has names that are allowed and lead to where they must not, directly and after a redirect.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var private, lookups atomic.Int32
	var port string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "http://rebind.example:"+port+"/private", http.StatusFound)
			return
		}
		private.Add(1)
	}))
	defer server.Close()
	_, port, _ = net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	addresses := map[string]netip.Addr{
		"rebind.example": netip.MustParseAddr("127.0.0.1"),
		"six.example":    netip.MustParseAddr("::1"),
		"mapped.example": netip.MustParseAddr("::ffff:127.0.0.1"),
		"meta.example":   netip.MustParseAddr("169.254.169.254"),
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: fakeDNS(func(name string) netip.Addr {
		lookups.Add(1)
		return addresses[name]
	})}
	s, err := newSource(&Options{Allow: []string{"*.example:" + port, "127.0.0.1:" + port}}, dialer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	urls := []string{server.URL + "/redirect"}
	for host := range addresses {
		urls = append(urls, "http://"+host+":"+port+"/private")
	}
	for _, u := range urls {
		_, err := invoke(t.Context(), s, "http.get", `{"url":"`+u+`"}`)
		f, ok := fault.As(err)
		if !ok || f.Code != fault.Denied || !strings.Contains(f.Message, "not public") {
			t.Errorf("%s: %v", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "169.254") {
			t.Errorf("%s: the message tells where the name leads: %v", u, err)
		}
	}
	if private.Load() != 0 || lookups.Load() == 0 {
		t.Errorf("%d requests arrived, %d names were looked up", private.Load(), lookups.Load())
	}
}
