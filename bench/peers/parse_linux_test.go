package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// perfText is what dnsperf 2.10 prints, with its figures left open.
const perfText = `DNS Performance Testing Tool
Version 2.10.0

[Status] Command line: dnsperf -s 127.0.0.1
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         %d
  Queries completed:    %d (99.00%%)
  Queries lost:         %d (1.00%%)

  Response codes:       %s
  Average packet size:  request 56, response %s
  Run time (s):         1.500268
  Queries per second:   %s

  Average Latency (s):  0.000500 (min 0.000010, max 0.020000)
  Latency StdDev (s):   0.000100
`

func TestParseDnsperf(t *testing.T) {
	run := 1500268 * time.Microsecond
	for _, c := range []struct {
		name string
		text string
		want perfResult
		err  string
	}{
		{
			name: "all well",
			text: fmt.Sprintf(perfText, 300, 300, 0, "NOERROR 300 (100.00%)", "152", "199.964273"),
			want: perfResult{Sent: 300, Completed: 300, ReplySize: 152, RunTime: run, PerSecond: 199.964273},
		}, {
			name: "lost and wrong",
			text: fmt.Sprintf(perfText, 300, 290, 10, "NOERROR 280 (96.55%), NXDOMAIN 10 (3.45%)", "150", "193.3"),
			want: perfResult{Sent: 300, Completed: 290, Lost: 10, Wrong: 10, ReplySize: 150, RunTime: run, PerSecond: 193.3},
		}, {
			name: "all wrong",
			text: fmt.Sprintf(perfText, 5, 5, 0, "SERVFAIL 5 (100.00%)", "40", "3.3"),
			want: perfResult{Sent: 5, Completed: 5, Wrong: 5, ReplySize: 40, RunTime: run, PerSecond: 3.3},
		}, {
			name: "no answer at all",
			text: fmt.Sprintf(perfText, 6, 0, 6, "", "0", "0.000000"),
			want: perfResult{Sent: 6, Lost: 6, RunTime: run},
		},
		{name: "not dnsperf", text: "no such file", err: `"Queries sent"`},
		{name: "a figure is no number", text: fmt.Sprintf(perfText, 1, 1, 0, "NOERROR 1 (100%)", "1", "many"), err: `"Queries per second"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseDnsperf(c.text)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       procStat
		err        string
	}{
		{
			name: "a server", line: "71 (nsd) S 70 70 1 0 -1 4194560 500 0 0 0 120 30 7 3 20 0 1 0 99 1 2",
			want: procStat{parent: 70, cpu: 1600 * time.Millisecond},
		}, {
			name: "a name like the rest", line: "72 (a) S 1 (b) R 3 70 1 0 -1 4194560 500 0 0 0 1 2 0 0 20 0 1 0 99 1 2",
			want: procStat{parent: 3, cpu: 30 * time.Millisecond},
		},
		{name: "no name", line: "71 nsd S 70", err: "no name"},
		{name: "cut", line: "71 (nsd) S 70 70 1", err: "4 fields"},
		{name: "no number", line: "71 (nsd) S 70 70 1 0 -1 4194560 500 0 0 0 x 30 7 3 20", err: "time"},
		{name: "no parent", line: "71 (nsd) S x 70 1 0 -1 4194560 500 0 0 0 1 30 7 3 20", err: "parent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseStat(c.line)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestParseStatus(t *testing.T) {
	got := parseStatus("Name:\tnsd\nPid:\t7\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nPss:  3 kB\nThreads:\t1\n")
	assert.Equal(t, map[string]int64{"VmHWM": 2 << 20, "VmRSS": 1 << 20, "Pss": 3 << 10}, got)
}

func TestDescendants(t *testing.T) {
	all := map[int]procStat{1: {}, 10: {parent: 1}, 11: {parent: 10}, 12: {parent: 11, cpu: 5}, 20: {parent: 1}, 21: {parent: 20}}
	got := descendants(all, 10)
	assert.Len(t, got, 3)
	assert.Equal(t, time.Duration(5), got[12].cpu)
	assert.NotContains(t, got, 21)
}

// TestOwnProcess reads this process as the kernel tells of it.
func TestOwnProcess(t *testing.T) {
	cpu, err := cpuOf(os.Getpid())
	require.NoError(t, err)
	for began := time.Now(); time.Since(began) < time.Second; { // work, until it shows
		now, err := cpuOf(os.Getpid())
		require.NoError(t, err)
		if now > cpu {
			break
		}
	}
	after, err := cpuOf(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, after, cpu)
	m, err := memoryOf(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, m.Resident, int64(1<<20))
	assert.GreaterOrEqual(t, m.Peak, m.Resident)
	_, err = cpuOf(1 << 30)
	assert.ErrorContains(t, err, strconv.Itoa(1<<30))
}

func TestParseFlags(t *testing.T) {
	o, err := parseFlags(nil)
	require.NoError(t, err)
	assert.Equal(t, experiments(), o.only)
	assert.Equal(t, 5, o.rounds)
	assert.Equal(t, need{packages: true, coredns: true, cluster: true}, o.need())
	o, err = parseFlags(strings.Fields("-only load -servers echo,meshdns -rounds 1 -seconds 0.2"))
	require.NoError(t, err)
	assert.Equal(t, []string{"echo", "meshdns"}, o.servers)
	assert.Equal(t, need{packages: true}, o.need())
	assert.Equal(t, []string{"dnsperf"}, binaries{}.missing(o.servers))
	for _, bad := range []string{"-servers powerdns", "-only all", "-rounds 0", "more", "-seconds 0"} {
		_, err := parseFlags(strings.Fields(bad))
		assert.Error(t, err, bad)
	}
}
