package kubernetes

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func testStatus(s *sink) *status {
	return newStatus("west", "kubernetes", slog.New(slog.DiscardHandler), s, "services", "endpointslices")
}

func TestStatusSaysWhatItWaitsFor(t *testing.T) {
	sink := newSink()
	st := testStatus(sink)
	defer st.close()
	st.start()
	assert.Equal(t, "waiting for the first list of services; waiting for the first list of endpointslices", sink.status().Error)
	assert.Equal(t, "west", sink.status().Source)
	assert.Equal(t, "kubernetes", sink.status().Kind)
	st.listed(0)
	st.failed(1, errors.New("forbidden"))
	assert.Equal(t, "waiting for the first list of endpointslices: forbidden", sink.status().Error)
	assert.False(t, sink.status().Synced)
	st.listed(1)
	assert.True(t, sink.status().Synced)
	assert.Equal(t, "forbidden", sink.status().Error, "its watch has not been seen to work")
	st.recovered(1)
	assert.Empty(t, sink.status().Error)
	st.configured(errors.New("no such file"))
	assert.Equal(t, "no such file", sink.status().Error)
	assert.True(t, sink.status().Synced, "never goes back")
	st.configured(nil)
	assert.Empty(t, sink.status().Error)
	st.skipped(2, "why")
	assert.Equal(t, 2, sink.status().Skipped)
	st.skipped(0, "")
	assert.Equal(t, "why", sink.status().LastSkip)
}

func TestSignsOfLifeArePushedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink()
		st := testStatus(sink)
		defer st.close()
		st.start()
		st.listed(0)
		st.listed(1)
		before := sink.reports()
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			st.alive()
		}
		synctest.Wait()
		assert.InDelta(t, 10, sink.reports()-before, 1)
		last := time.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, last, sink.status().LastSuccess, "the last one is not lost")
		count := sink.reports()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, count, sink.reports(), "nothing without news")
	})
}

func TestErrorsArePushedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink()
		st := testStatus(sink)
		defer st.close()
		st.start()
		st.alive()
		st.failed(0, errors.New("down"))
		assert.Contains(t, sink.status().Error, "down")
	})
}

func TestStatusIsSilentAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink()
		st := testStatus(sink)
		st.start()
		st.alive() // arms the timer
		st.close()
		st.failed(0, errors.New("down"))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, sink.reports())
	})
}
