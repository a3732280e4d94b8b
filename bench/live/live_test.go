package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/server"
)

// TestChangesAreAnsweredAndReported pushes changes and finds each in the answers, and in
// the report.
func TestChangesAreAnsweredAndReported(t *testing.T) {
	defer goleak.VerifyNone(t)
	f, err := newFleet(data.Default(300))
	require.NoError(t, err)
	defer f.close()
	h := server.NewAnswers(server.AnswersConfig{Views: f.publisher}).NewHandler()
	for range 50 {
		f.push()
		f.flush()
		cluster, service := f.pushed%f.Clusters, f.pushed*7919%f.Services
		query, err := new(dns.Msg).SetQuestion(f.Host(service)+".", dns.TypeA).Pack()
		require.NoError(t, err)
		h.Begin([][]byte{query})
		reply, verdict := h.Handle(0, make([]byte, 0, 4096), &server.Transport{Protocol: server.UDP})
		h.End()
		require.Equal(t, server.Reply, verdict)
		var m dns.Msg
		require.NoError(t, m.Unpack(reply))
		var got []string
		for _, rr := range m.Answer {
			got = append(got, rr.(*dns.A).A.String())
		}
		require.Contains(t, got, f.Address(cluster, service, 0, f.pushed).String())
		require.Len(t, got, 6)
	}
	r := f.report(time.Second)
	require.Equal(t, 50, r.Changes)
	require.Zero(t, r.Coalesced)
	require.Positive(t, r.P50)
	require.LessOrEqual(t, r.P50, r.Max)
	require.Zero(t, f.report(time.Second).Changes, "the next report begins anew")
}

// TestObey reads rates and writes a line for each period but the last.
func TestObey(t *testing.T) {
	defer goleak.VerifyNone(t)
	f, err := newFleet(data.Default(10))
	require.NoError(t, err)
	defer f.close()
	var out bytes.Buffer
	require.NoError(t, f.obey(bytes.NewBufferString("0\n1000\n0\n"), &out))
	decoder := json.NewDecoder(&out)
	var quiet, busy Report
	require.NoError(t, decoder.Decode(&quiet))
	require.NoError(t, decoder.Decode(&busy))
	require.False(t, decoder.More())
	require.Zero(t, quiet.Changes)
	require.ErrorContains(t, f.obey(bytes.NewBufferString("many\n"), &out), "many")
}
