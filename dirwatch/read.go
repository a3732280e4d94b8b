package dirwatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// readAtOnce bounds the bytes of files that are being read and decoded at one time; a
// larger file is read alone.
const readAtOnce = 32 << 20

// keptBuffer is up to which size a buffer is used for the next file.
const keptBuffer = 4 << 20

var errTooLarge = errors.New("file too large")

// reader reads files.
type reader struct {
	limit  int64
	decode func(path string, content []byte) any // nil: contents are kept
	room   *semaphore.Weighted                   // of readAtOnce
}

func newReader(limit int64, decode func(string, []byte) any) reader {
	return reader{limit: limit, decode: decode, room: semaphore.NewWeighted(readAtOnce)}
}

// each calls read with each of the numbers, on all processors, and a buffer that nobody
// else uses meanwhile.
func (r reader) each(numbers []int, read func(number int, buffer *[]byte)) {
	var next atomic.Int64
	work := func() {
		var buffer []byte
		for i := next.Add(1) - 1; i < int64(len(numbers)); i = next.Add(1) - 1 {
			read(numbers[i], &buffer)
		}
	}
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(numbers)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
}

// content is the content of e, read now. A file that holds the same bytes as before keeps
// its old *File.
func (r reader) content(e entry, old *content, buffer *[]byte) *content {
	c := &content{entry: e, file: &File{Path: e.path, Err: e.err, Folder: e.folder}}
	if e.err == nil {
		c.fresh = time.Since(e.info.ModTime()) < fresh
		r.fill(c, old, buffer)
	}
	if old != nil && old.file.equal(c.file) {
		c.file = old.file
	}
	return c
}

// fill reads the file of c.
func (r reader) fill(c, old *content, buffer *[]byte) {
	if r.decode == nil {
		c.file.Content, c.file.Err = readFile(c.entry, nil, r.limit)
		return
	}
	size := min(c.info.Size(), readAtOnce)
	_ = r.room.Acquire(context.Background(), size) // which never ends
	defer r.room.Release(size)
	data, err := readFile(c.entry, *buffer, r.limit)
	if err != nil {
		c.file.Err = err
		return
	}
	if *buffer = data; cap(data) > keptBuffer {
		*buffer = nil
	}
	c.file.sum = sha256.Sum256(data)
	if old == nil || !old.file.equal(c.file) {
		c.file.Decoded = r.decode(c.file.Path, data)
	}
}

// readFile reads at most limit bytes into buffer; errors name the path as configured.
func readFile(e entry, buffer []byte, limit int64) ([]byte, error) {
	data, err := readRegular(e.real, buffer, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.path, err)
	}
	return data, nil
}

func readRegular(path string, buffer []byte, limit int64) (data []byte, err error) {
	// Without O_NONBLOCK, opening a pipe that took the file's place would wait for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoRegular
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, info.Size(), limit)
	}
	return readBounded(f, slices.Grow(buffer[:0], int(info.Size())+1), limit)
}

// readBounded reads a file that may grow meanwhile.
func readBounded(f io.Reader, data []byte, limit int64) ([]byte, error) {
	for int64(len(data)) <= limit {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data)/2+512)
		}
	}
	return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
}
