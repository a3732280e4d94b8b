package data

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// ZoneFile writes the mesh as a zone in the notation of RFC 1035, section 5.
func (f Fleet) ZoneFile(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "$ORIGIN %s.\n$TTL %d\n", Zone, f.TTL)
	fmt.Fprint(b, "@ SOA ns hostmaster 1 3600 600 86400 5\n@ NS ns\nns A 127.0.0.1\n")
	for i := range f.Services {
		for _, address := range f.Addresses(i) {
			fmt.Fprintf(b, "%s.%s.svc A %s\n", f.Service(i), f.Namespace(i), address)
		}
	}
	return b.Flush() // an earlier error stays in it
}

// WriteFile makes a file with one of the writers of Fleet.
func WriteFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make a file of the data: %w", err)
	}
	if err := write(file); err != nil {
		file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", path, err)
	}
	return nil
}
