package server_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

// packet puts a message together from hexadecimal pieces; spaces don't count.
func packet(t testing.TB, pieces ...string) []byte {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.Join(pieces, ""), " ", ""))
	require.NoError(t, err)
	return raw
}

const (
	header1  = "1234 0100 0001 0000 0000 0000" // one question, RD
	headerAR = "1234 0100 0001 0000 0000 0001"
	question = "03 777777 04 6d657368 00 0001 0001" // www.mesh A IN
	opt      = "00 0029 04d0 00000000 0000"
)

// TestMalformed is DNS_RULES 33 to 35, in the order in which a message is checked.
func TestMalformed(t *testing.T) {
	w := newWorld(t, settings("c1"))
	for _, c := range []struct {
		name   string
		packet []byte
		rcode  int // -1: no reply
		opt    bool
	}{
		{"empty", nil, -1, false},
		{"eleven bytes", packet(t, "1234 0100 0001 0000 0000 00"), -1, false},
		{"a reply", packet(t, "1234 8100 0001 0000 0000 0000", question), -1, false},
		{"well-formed", packet(t, header1, question), dns.RcodeNameError, false},
		{"well-formed, with OPT", packet(t, headerAR, question, opt), dns.RcodeNameError, true},
		{"bytes after the message", packet(t, header1, question, "deadbeef"), dns.RcodeNameError, false},
		{"opcode 5 with a question (C14)", packet(t, "1234 2800 0001 0000 0000 0000", question), dns.RcodeNotImplemented, false},
		{"opcode 15 without one (C14)", packet(t, "1234 7800 0000 0000 0000 0000"), dns.RcodeNotImplemented, false},
		{"no question", packet(t, "1234 0100 0000 0000 0000 0000"), dns.RcodeFormatError, false},
		{"two questions", packet(t, "1234 0100 0002 0000 0000 0000", question, question), dns.RcodeFormatError, false},
		{"two questions, with OPT", packet(t, "1234 0100 0002 0000 0000 0001", question, question, opt), dns.RcodeFormatError, true},
		{"question missing", packet(t, header1), dns.RcodeFormatError, false},
		{"label past the end", packet(t, header1, "3f 7777"), dns.RcodeFormatError, false},
		{"label type 0x40", packet(t, header1, "41 77 00 0001 0001"), dns.RcodeFormatError, false},
		{"label type 0x80", packet(t, header1, "81 77 00 0001 0001"), dns.RcodeFormatError, false},
		{"pointer to itself", packet(t, header1, "c00c 0001 0001"), dns.RcodeFormatError, false},
		{"name over 255", packet(t, header1, strings.Repeat("3f"+strings.Repeat("61", 63), 4), "00 0001 0001"), dns.RcodeFormatError, false},
		{"records beyond the data", packet(t, "1234 0100 0001 0000 0000 ffff", question), dns.RcodeFormatError, false},
		{"answers beyond the data", packet(t, "1234 0100 0001 ffff 0000 0000", question), dns.RcodeFormatError, false},
		{"a record in ANSWER", packet(t, "1234 0100 0001 0001 0000 0000", question, "c00c 0001 0001 00000000 0004 7f000001"), dns.RcodeFormatError, false},
		{"a record in ANSWER, with OPT", packet(t, "1234 0100 0001 0001 0000 0001", question, "c00c 0001 0001 00000000 0004 7f000001", opt), dns.RcodeFormatError, true},
		{"two OPTs", packet(t, "1234 0100 0001 0000 0000 0002", question, opt, opt), dns.RcodeFormatError, true},
		{"OPT in AUTHORITY", packet(t, "1234 0100 0001 0000 0001 0000", question, opt), dns.RcodeFormatError, true},
		{"OPT with an owner", packet(t, headerAR, question, "0161", opt), dns.RcodeFormatError, true},
		{"option past its OPT", packet(t, headerAR, question, "00 0029 04d0 00000000 0004 000a0008"), dns.RcodeFormatError, true},
		{"unknown option", packet(t, headerAR, question, "00 0029 04d0 00000000 0004 fde90000"), dns.RcodeNameError, true},
		{"EDNS version 1 (C38)", packet(t, headerAR, question, "00 0029 04d0 00010000 0000"), dns.RcodeBadVers, true},
		{"class CH (C13)", packet(t, header1, "03 777777 04 6d657368 00 0001 0003"), dns.RcodeRefused, false},
		{"class ANY (C13)", packet(t, header1, "03 777777 04 6d657368 00 0001 00ff"), dns.RcodeRefused, false},
		{"out of zone", packet(t, header1, "03 777777 00 0001 0001"), dns.RcodeRefused, false},
		{"root NS (C170)", packet(t, header1, "00 0002 0001"), dns.RcodeRefused, false},
		{"AXFR", packet(t, header1, "04 6d657368 00 00fc 0001"), dns.RcodeRefused, false},
		{"IXFR with its SOA (C16)", packet(t, "1234 0000 0001 0000 0001 0000", "04 6d657368 00 00fb 0001", "c00c 0006 0001 00000000 0016 00 00", strings.Repeat("00", 20)), dns.RcodeRefused, false},
		{"TSIG by an unknown key", packet(t, headerAR, question, "00 00fa 00ff 00000000 0000"), dns.RcodeNotAuth, false},
		{"TSIG before an OPT", packet(t, "1234 0100 0001 0000 0000 0002", question, "00 00fa 00ff 00000000 0000", opt), dns.RcodeFormatError, true},
	} {
		for _, protocol := range []server.Protocol{server.UDP, server.TCP} {
			t.Run(fmt.Sprint(c.name, "/", protocol), func(t *testing.T) {
				out, verdict := w.handler.Answer(make([]byte, 0, 65535), c.packet, &server.Transport{Protocol: protocol})
				if c.rcode < 0 {
					require.Equal(t, server.Drop, verdict)
					return
				}
				require.Equal(t, server.Reply, verdict)
				checkReply(t, c.packet, out, c.rcode, c.opt)
			})
		}
	}
}

// checkReply holds for every reply (DNS_RULES 1, 28).
func checkReply(t *testing.T, query, out []byte, rcode int, opt bool) {
	reply := new(dns.Msg)
	require.NoError(t, reply.Unpack(out), "%x", out)
	assert.Equal(t, dns.RcodeToString[rcode], dns.RcodeToString[reply.Rcode])
	assert.Equal(t, query[:2], out[:2], "ID")
	assert.Equal(t, query[2]&0x79|0x80, out[2]&^0x06, "QR, opcode, RD")
	assert.Zero(t, out[3]&0xf0, "RA, Z, AD, CD")
	assert.Equal(t, rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError, reply.Authoritative)
	assert.Equal(t, opt, reply.IsEdns0() != nil)
	if rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError {
		assert.Empty(t, reply.Answer)
		assert.Empty(t, reply.Ns)
	}
	assert.LessOrEqual(t, len(reply.Question), 1)
}

// FuzzHandle: whatever comes, a reply is well-formed, within its limit, and belongs to
// the query.
func FuzzHandle(f *testing.F) {
	w := newWorld(f, settings("c1", "c2"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready), endpoint("2001:db8::1", "web-0", sources.Ready)))
	w.put("c2", "shop", "db", &sources.ServiceFields{Type: sources.ExternalName, ExternalName: "api.shop.svc.cluster.local"})
	for _, name := range []string{"api.shop.svc.cluster.global.", "_http._tcp.api.shop.svc.cluster.global.", "web-0.c1.api.shop.svc.cluster.global.", "db.shop.svc.cluster.c2.", "mesh.", "a.b.c.d.mesh.", "."} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY, dns.TypeSOA} {
			packed, err := new(dns.Msg).SetQuestion(name, typ).SetEdns0(4096, true).Pack()
			require.NoError(f, err)
			f.Add(packed)
		}
	}
	f.Add(packet(f, header1, question))
	f.Fuzz(func(t *testing.T, query []byte) {
		for _, protocol := range []server.Protocol{server.UDP, server.TCP} {
			out, verdict := w.handler.Answer(make([]byte, 0, 65535), query, &server.Transport{Protocol: protocol})
			if verdict != server.Reply {
				continue
			}
			reply := new(dns.Msg)
			require.NoError(t, reply.Unpack(out), "%x", out)
			require.Equal(t, query[:2], out[:2])
			require.True(t, reply.Response)
			if protocol == server.UDP {
				require.LessOrEqual(t, len(out), 1232)
			}
		}
	})
}
