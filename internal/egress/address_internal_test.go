package egress

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCheckResolved(t *testing.T) {
	t.Parallel()
	rules, faults := Parse([]string{"*.example.com", "example.net", "http://intern.example:8080", "localhost:8080", "127.0.0.1:8080",
		"[::1]:8080", "10.0.0.1"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	tests := []struct {
		host, resolved string
		want           fault.Code
	}{
		{"a.example.com", "93.184.216.34:443", ""},
		{"a.example.com", "[2606:2800:220:1::1]:443", ""},
		{"a.example.com", "[::ffff:93.184.216.34]:443", ""},
		{"a.example.com", "127.0.0.1:80", fault.Denied},
		{"a.example.com", "127.9.9.9:80", fault.Denied},
		{"a.example.com", "[::1]:80", fault.Denied},
		{"a.example.com", "[::ffff:127.0.0.1]:80", fault.Denied},
		{"a.example.com", "[::ffff:10.0.0.1]:80", fault.Denied},
		{"a.example.com", "0.0.0.0:80", fault.Denied},
		{"a.example.com", "[::]:80", fault.Denied},
		{"a.example.com", "10.1.2.3:80", fault.Denied},
		{"a.example.com", "172.16.0.1:80", fault.Denied},
		{"a.example.com", "192.168.1.1:80", fault.Denied},
		{"a.example.com", "100.64.0.1:80", fault.Denied},      // shared by carriers
		{"a.example.com", "100.100.100.200:80", fault.Denied}, // metadata, Alibaba
		{"a.example.com", "169.254.169.254:80", fault.Denied}, // metadata, most clouds
		{"a.example.com", "168.63.129.16:80", fault.Denied},   // metadata, Azure
		{"a.example.com", "192.0.0.192:80", fault.Denied},     // metadata, Oracle
		{"a.example.com", "[fd00:ec2::254]:80", fault.Denied}, // metadata, AWS
		{"a.example.com", "[fe80::1%eth0]:80", fault.Denied},
		{"a.example.com", "[fc00::1]:80", fault.Denied},
		{"a.example.com", "[fec0::1]:80", fault.Denied},
		{"a.example.com", "[ff02::1]:80", fault.Denied},
		{"a.example.com", "[64:ff9b::7f00:1]:80", fault.Denied},  // NAT64
		{"a.example.com", "[64:ff9b:1::a00:1]:80", fault.Denied}, // NAT64, local
		{"a.example.com", "[2002:7f00:1::]:80", fault.Denied},    // 6to4
		{"a.example.com", "[2001:0:7f00:1::]:80", fault.Denied},  // Teredo
		{"a.example.com", "[::127.0.0.1]:80", fault.Denied},      // IPv4-compatible
		{"a.example.com", "[2001:db8::1]:80", fault.Denied},      // documentation
		{"a.example.com", "224.0.0.1:80", fault.Denied},          // multicast
		{"a.example.com", "255.255.255.255:80", fault.Denied},    // broadcast
		{"a.example.com", "198.18.0.1:80", fault.Denied},         // benchmarks
		{"a.example.com", "not an address", fault.Denied},        // whatever that is
		{"127.0.0.1", "127.0.0.1:8080", ""},                      // an entry is that address
		{"::1", "[::1]:8080", ""},                                //
		{"10.0.0.1", "10.0.0.1:80", ""},                          //
		{"10.0.0.1", "10.0.0.2:80", fault.Denied},                //
		{"localhost", "127.0.0.1:8080", ""},                      //
		{"localhost", "[::1]:8080", ""},                          //
		{"localhost", "10.0.0.1:8080", fault.Denied},             // a resolver that lies
		{"a.localhost", "127.0.0.1:8080", fault.Denied},          //
		// A host that is named exactly may be private, on the port that is meant, and nothing else.
		{"intern.example", "10.1.2.3:8080", ""},
		{"intern.example", "127.0.0.1:8080", ""},
		{"intern.example", "[::ffff:192.168.1.1]:8080", ""},
		{"intern.example", "[fd12::1]:8080", ""},
		{"intern.example", "[::1]:8080", ""},
		{"intern.example", "100.64.0.1:8080", ""},
		{"intern.example", "93.184.216.34:8080", ""},
		{"intern.example", "10.1.2.3:80", fault.Denied},
		{"example.net", "10.1.2.3:443", ""},
		{"example.net", "10.1.2.3:80", ""},
		{"example.net", "10.1.2.3:8080", fault.Denied},
		{"intern.example", "169.254.169.254:8080", fault.Denied},
		{"intern.example", "100.100.100.200:8080", fault.Denied},
		{"intern.example", "168.63.129.16:8080", fault.Denied},
		{"intern.example", "192.0.0.192:8080", fault.Denied},
		{"intern.example", "[fd00:ec2::254]:8080", fault.Denied},
		{"intern.example", "[fd20:ce::254]:8080", fault.Denied},
		{"intern.example", "[fe80::1%eth0]:8080", fault.Denied},
		{"intern.example", "0.0.0.0:8080", fault.Denied},
		{"intern.example", "[::]:8080", fault.Denied},
		{"intern.example", "224.0.0.1:8080", fault.Denied},
		{"intern.example", "[64:ff9b::7f00:1]:8080", fault.Denied},
		{"intern.example", "[2002:7f00:1::]:8080", fault.Denied},
	}
	for _, test := range tests {
		if err := rules.checkResolved(test.host, test.resolved); fault.CodeOf(err) != test.want {
			t.Errorf("%s at %s: %v, want %q", test.host, test.resolved, err, test.want)
		}
	}
}

// TestRebinding: allowed names must not lead to forbidden addresses, directly or after a redirect.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var private, lookups atomic.Int32
	var port string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://rebind.example:"+port+"/private", http.StatusFound)
		case "/private":
			private.Add(1)
		}
	}))
	defer server.Close()
	_, port, _ = net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	addresses := map[string]netip.Addr{
		"rebind.example": netip.MustParseAddr("127.0.0.1"),
		"six.example":    netip.MustParseAddr("::1"),
		"mapped.example": netip.MustParseAddr("::ffff:127.0.0.1"),
		"meta.example":   netip.MustParseAddr("169.254.169.254"),
		"meta.intern":    netip.MustParseAddr("169.254.169.254"),
		"own.intern":     netip.MustParseAddr("127.0.0.1"),
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: fakeDNS(func(name string) netip.Addr {
		lookups.Add(1)
		return addresses[name]
	})}
	listed, faults := Parse([]string{"*.example:" + port, "127.0.0.1:" + port, "meta.intern:" + port, "own.intern:" + port})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, rules := range map[string]*Rules{"a list": listed, "any public host": AnyPublic()} {
		client := rules.Client(&TransportOptions{Dialer: dialer})
		defer client.CloseIdleConnections()
		urls := []string{}
		if name == "a list" {
			urls = append(urls, server.URL+"/redirect")
		}
		for host := range addresses {
			if host != "own.intern" || name != "a list" {
				urls = append(urls, "http://"+host+":"+port+"/private")
			}
		}
		for _, u := range urls {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Do(request)
			f, ok := fault.As(err)
			if !ok || f.Code != fault.Denied || !strings.Contains(f.Message, "not public") {
				t.Errorf("%s, %s: %v, want denied", name, u, err)
			}
			if ok && strings.Contains(f.Message, "169.254") {
				t.Errorf("%s: the message shows the resolved address: %v", u, err)
			}
		}
	}
	if private.Load() != 0 || lookups.Load() == 0 {
		t.Errorf("%d requests arrived, want 0; %d names were looked up, want some", private.Load(), lookups.Load())
	}
	response, err := listed.Client(&TransportOptions{Dialer: dialer}).Get("http://own.intern:" + port + "/private")
	if err != nil {
		t.Fatalf("a private host that the list names exactly: %v", err)
	}
	_ = response.Body.Close()
}
