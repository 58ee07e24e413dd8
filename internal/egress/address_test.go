package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// fakeDNS returns a resolver that answers each query for an address with the result of answer, over the stream that it dials.
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
