package main

import (
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/bench/data"
)

func TestReply(t *testing.T) {
	f := data.Default(200)
	query, err := new(dns.Msg).SetQuestion(f.Host(150)+".", dns.TypeA).Pack()
	require.NoError(t, err)
	upper, err := new(dns.Msg).SetQuestion(strings.ToUpper(f.Host(150))+".", dns.TypeA).Pack()
	require.NoError(t, err)
	absent, err := new(dns.Msg).SetQuestion("absent.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		query   []byte
		fixed   bool
		rcode   int
		address string // of the first record
	}{
		{name: "looked up", query: query, address: f.Address(0, 150, 0, 0).String()},
		{name: "in any case", query: upper, address: f.Address(0, 150, 0, 0).String()},
		{name: "absent", query: absent, rcode: dns.RcodeNameError},
		{name: "fixed", query: absent, fixed: true, address: f.Address(0, 0, 0, 0).String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m dns.Msg
			require.NoError(t, m.Unpack(newAnswers(f, c.fixed).reply(nil, c.query)))
			assert.Equal(t, c.rcode, m.Rcode)
			assert.True(t, m.Response && m.Authoritative && m.RecursionDesired)
			if c.address == "" {
				assert.Empty(t, m.Answer)
				return
			}
			require.Len(t, m.Answer, 6)
			assert.Equal(t, c.address, m.Answer[0].(*dns.A).A.String())
		})
	}
}

func TestReplyToRubbish(t *testing.T) {
	a := newAnswers(data.Default(1), true)
	query, err := new(dns.Msg).SetQuestion("a.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	for n := range query {
		assert.Nil(t, a.reply(nil, query[:n]), "%d bytes", n)
	}
	endless := append(query[:12:12], make([]byte, 600)...)
	for i := 12; i < len(endless); i++ {
		endless[i] = 1
	}
	assert.Nil(t, a.reply(nil, endless))
}

// TestBatch sends more than fits in a batch over a real socket and has every question
// answered.
func TestBatch(t *testing.T) {
	f := data.Default(50)
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = newLoop(newAnswers(f, false), 8).runPoller(raw) // ends when the socket is closed
	}()
	defer func() { conn.Close(); <-done }()
	client, err := dns.Dial("udp", conn.LocalAddr().String())
	require.NoError(t, err)
	defer client.Close()
	for i := range f.Services {
		m := new(dns.Msg).SetQuestion(f.Host(i)+".", dns.TypeA)
		m.Id = uint16(i)
		require.NoError(t, client.WriteMsg(m))
	}
	for range f.Services {
		m, err := client.ReadMsg()
		require.NoError(t, err)
		require.Equal(t, f.Host(int(m.Id))+".", m.Question[0].Name)
		require.Len(t, m.Answer, 6)
		require.Equal(t, f.Address(0, int(m.Id), 0, 0).String(), m.Answer[0].(*dns.A).A.String())
	}
}
