package resolver

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/sources"
)

// Fetch resolves locators that were never asked: the fan-out of a first question, under
// ctx's deadline. Upstreams sees to it that each locator is asked once for all who wait.
// When Fetch returns, what was learnt is published. Its error is the first that a locator
// gave; the others are asked all the same.
func (r *Resolver) Fetch(ctx context.Context, backendKeys []string) error {
	if r.up == nil {
		return nil
	}
	source := r.Snapshot().Settings.UpstreamSource
	var group errgroup.Group
	for _, key := range backendKeys {
		group.Go(func() error {
			return r.up.Resolve(ctx, sources.Key{Source: source, Kind: sources.KindBackend, Name: key})
		})
	}
	err := group.Wait()
	if flushed := r.Flush(ctx); flushed != nil {
		return flushed
	}
	return err
}
