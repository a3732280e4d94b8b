package scenarios

import (
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadLayout(t *testing.T) {
	m := new(dns.Msg).SetQuestion("WeB.mesh.", dns.TypeSRV)
	m.Compress = true
	for _, text := range []string{"WeB.mesh. 5 IN SRV 0 0 80 a.web.mesh.", "WeB.mesh. 5 IN SRV 0 0 80 b.web.mesh."} {
		rr, err := dns.NewRR(text)
		require.NoError(t, err)
		m.Answer = append(m.Answer, rr)
	}
	m.SetEdns0(1232, false)
	wire, err := m.Pack()
	require.NoError(t, err)
	l, err := readLayout(wire)
	require.NoError(t, err)
	assert.Equal(t, [4]int{1, 2, 0, 1}, l.counts)
	require.Len(t, l.records, 3)
	assert.Equal(t, "\x03WeB\x04mesh\x00", string(l.records[1].ownerWire))
	assert.True(t, l.records[1].ownerIsLink)
	assert.Equal(t, uint32(5), l.records[1].ttl)
	assert.Equal(t, dns.TypeOPT, l.records[2].rtype)

	_, err = readLayout(append(wire, 0))
	assert.ErrorContains(t, err, "1 bytes after")
	for n := range wire {
		_, err := readLayout(wire[:n])
		assert.Error(t, err, "cut at %d", n)
	}
}

func TestReadNameRefuses(t *testing.T) {
	header := make([]byte, headerSize)
	for name, tail := range map[string][]byte{
		"a pointer to itself": {0xc0, 12},
		"a pointer ahead":     {0xc0, 14, 1, 'a', 0},
		"into the header":     {0xc0, 4},
		"a loop":              {1, 'a', 0xc0, 12},
		"label type 0x40":     {0x41, 1, 0},
		"no end":              {3, 'a', 'b'},
		"half a pointer":      {0xc0},
	} {
		_, _, _, err := readName(append(header[:headerSize:headerSize], tail...), headerSize)
		assert.Error(t, err, name)
	}
	long := header[:headerSize:headerSize]
	for range 128 {
		long = append(long, 1, 'a')
	}
	_, _, _, err := readName(append(long, 0), headerSize)
	assert.ErrorContains(t, err, "too long")
}
