package cli

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/meshdns/meshdns/admin"
)

func TestReadiness(t *testing.T) {
	waiting := []string{"east"}
	r := &readiness{sources: func() ([]string, bool) { return waiting, len(waiting) == 0 }}
	assert.Equal(t, admin.State{Waiting: []string{"east"}}, r.State())
	waiting = nil
	assert.Equal(t, admin.State{Ready: true}, r.State())
	r.stopping.Store(true)
	assert.Equal(t, admin.State{Stopping: true}, r.State(), "C115: not ready before anything stops")
}

func TestUntilTold(t *testing.T) {
	signals := make(chan os.Signal, 3)
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP
	signals <- syscall.SIGTERM
	reread := 0
	assert.Equal(t, syscall.SIGTERM, untilTold(t.Context(), signals, func() { reread++ }))
	assert.Equal(t, 2, reread)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Nil(t, untilTold(ctx, nil, nil))
}

func TestDrain(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	r := &readiness{}
	drain(t.Context(), r, nil, 0, log)
	assert.True(t, r.State().Stopping)

	start := time.Now()
	drain(t.Context(), r, nil, 50*time.Millisecond, log)
	assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)

	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGHUP // not what ends it
	signals <- syscall.SIGINT
	drain(t.Context(), r, signals, time.Hour, log)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drain(ctx, r, nil, time.Hour, log)
}
