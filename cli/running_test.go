package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources/dns"
)

// serving is a `serve` that runs in this process.
type serving struct {
	t       *testing.T
	dns     netip.AddrPort
	admin   string // URL
	signals chan os.Signal
	stdout  *lines
	stderr  *lines
	ended   chan int // the exit code
}

// lines collects what is written, line by line, and lets tests wait for a line.
type lines struct {
	mu   sync.Mutex
	more sync.Cond
	all  []string
	end  bool
}

func newLines(r io.Reader) *lines {
	l := &lines{}
	l.more.L = &l.mu
	go func() {
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			l.mu.Lock()
			l.all = append(l.all, scanner.Text())
			l.mu.Unlock()
			l.more.Broadcast()
		}
		l.mu.Lock()
		l.end = true
		l.mu.Unlock()
		l.more.Broadcast()
	}()
	return l
}

// await returns the first line, from the one of that number on, that holds all of texts;
// "" when there is none up to the end.
func (l *lines) await(from int, texts ...string) (line string, next int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := from; ; i++ {
		for i >= len(l.all) {
			if l.end {
				return "", i
			}
			l.more.Wait()
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(l.all[i], text) }) {
			return l.all[i], i + 1
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// startServe runs `serve` on free ports until the test ends and waits until it listens.
func startServe(t *testing.T, args ...string) *serving {
	t.Helper()
	outReader, outWriter := io.Pipe()
	errReader, errWriter := io.Pipe()
	s := &serving{
		t: t, signals: make(chan os.Signal, 4), ended: make(chan int, 1),
		stdout: newLines(outReader), stderr: newLines(errReader),
	}
	ctx, cancel := context.WithCancel(context.Background())
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"}, args...)
	go func() {
		code := Run(ctx, Env{Args: args, Stdout: outWriter, Stderr: errWriter, Signals: s.signals})
		_ = outWriter.Close()
		_ = errWriter.Close()
		s.ended <- code
	}()
	t.Cleanup(func() {
		cancel()
		s.ended <- <-s.ended
		if t.Failed() {
			t.Log(s.stderr.String())
		}
	})
	s.dns = netip.MustParseAddrPort(s.logged("listening for queries", "address"))
	s.admin = s.logged("serving the admin API", "url")
	return s
}

// logged waits for a log line and returns one of its fields.
func (s *serving) logged(message, field string) string {
	s.t.Helper()
	line, _ := s.stderr.await(0, `"msg":"`+message+`"`)
	require.NotEmpty(s.t, line, "serve ended: %s", s.stderr)
	var fields map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(line), &fields))
	return fields[field].(string)
}

// get decodes the answer of an admin path and returns its code.
func (s *serving) get(path string, query url.Values, into any) int {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.admin+path+"?"+query.Encode(), nil)
	require.NoError(s.t, err)
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	if into != nil {
		require.NoError(s.t, json.Unmarshal(body, into), string(body))
	}
	return response.StatusCode
}

// metrics is the text of /metrics.
func (s *serving) metrics() string {
	s.t.Helper()
	response, err := http.Get(s.admin + "/metrics")
	require.NoError(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return string(body)
}

// ask sends one question.
func (s *serving) ask(name, typ string) *dns.Reply {
	s.t.Helper()
	number, err := dns.TypeFromText(typ)
	require.NoError(s.t, err)
	client := dns.NewClient(dns.ClientConfig{Timeout: 5 * time.Second})
	reply, err := client.Exchange(s.t.Context(), dns.Question{Name: names.MustParse(name), Type: number}, s.dns)
	require.NoError(s.t, err)
	return reply
}

// data is the sorted data of an answer's records, which must all be of that type.
func (s *serving) data(name, typ string) []string {
	s.t.Helper()
	reply := s.ask(name, typ)
	require.Equal(s.t, "NOERROR", reply.Rcode(), "%s %s", name, typ)
	var data []string
	for _, record := range reply.Answer() {
		assert.Equal(s.t, typ, record.Type, "%s %s", name, typ)
		data = append(data, record.Data)
	}
	slices.Sort(data)
	return data
}

// explained is what the admin API says of a name.
func (s *serving) explained(name, typ string) api.Explanation {
	s.t.Helper()
	var e api.Explanation
	require.Equal(s.t, http.StatusOK, s.get("/api/v1/explain", url.Values{"name": {name}, "type": {typ}}, &e))
	return e
}

// stop sends SIGTERM's equivalent and returns the exit code.
func (s *serving) stop(signal os.Signal) int {
	s.signals <- signal
	code := <-s.ended
	s.ended <- code
	return code
}
