package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/meshdns/meshdns/sources"
)

func TestNothingIsPushedBeforeBothKindsAreListed(t *testing.T) {
	f := newFixture(t)
	f.relist(kindService, newService("api"))
	f.set(newService("web"))
	assert.Zero(t, f.sink.count())
	assert.False(t, f.sink.status().Synced)
	assert.Equal(t, "waiting for the first list of endpointslices", f.sink.status().Error)

	f.relist(kindSlice, newSlice("api", "api-1", "192.0.2.1"))
	f.wantText("shop/api [api-1 192.0.2.1]", "shop/web ")
	assert.Equal(t, 2, f.sink.count())
	assert.True(t, f.sink.status().Synced)
	assert.Empty(t, f.sink.status().Error)
}

func TestUpdateCarriesTheWholeKey(t *testing.T) {
	f := newFixture(t).listed(newService("api"))
	assert.Equal(t, sources.Key{Source: "west", Kind: sources.KindService, Namespace: "shop", Name: "api"}, f.sink.updates[0].Key)
	f.delete(newService("api"))
	assert.Equal(t, f.sink.updates[0].Key, f.sink.updates[1].Key)
	assert.Nil(t, f.sink.updates[1].Value)
}

func TestSlicesOfUnknownServicesAreHeld(t *testing.T) {
	f := newFixture(t).listed()
	f.set(newSlice("api", "api-1", "192.0.2.1"))
	assert.Zero(t, f.sink.count())
	f.set(newService("api"))
	f.wantText("shop/api [api-1 192.0.2.1]")
	assert.Equal(t, 1, f.sink.count())
}

func TestSlicesAreOrdered(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newSlice("api", "b", "192.0.2.2"), newSlice("api", "a", "192.0.2.1"))
	f.set(newSlice("api", "c", "192.0.2.3"))
	f.wantText("shop/api [a 192.0.2.1][b 192.0.2.2][c 192.0.2.3]")
	f.set(newService("api", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }))
	f.wantText("shop/api [a 192.0.2.1][b 192.0.2.2][c 192.0.2.3]")
	assert.Equal(t, []sources.Port{{Name: "http", Number: 81}}, f.sink.service("shop/api").Ports().List())
	f.delete(newSlice("api", "a"))
	f.wantText("shop/api [b 192.0.2.2][c 192.0.2.3]")
}

// FAULTS 9, CASES C109: the same objects again push nothing, by event and by list.
func TestUnchangedObjectsPushNothing(t *testing.T) {
	objects := []metav1.Object{newService("api"), newSlice("api", "a", "192.0.2.1", "192.0.2.2")}
	f := newFixture(t).listed(objects...)
	before := f.sink.count()
	f.set(objects...)
	f.relist(kindService, objects...)
	f.relist(kindSlice, objects...)
	reordered := newSlice("api", "a", "192.0.2.2", "192.0.2.1")
	reordered.ResourceVersion, reordered.Annotations = "77", map[string]string{"x": "y"}
	f.set(reordered)
	assert.Equal(t, before, f.sink.count())
}

// CASES C106.
func TestServiceGoneWhileItsSlicesLinger(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newSlice("api", "a", "192.0.2.1"))
	f.delete(newService("api"))
	f.wantText()
	before := f.sink.count()
	f.set(newSlice("api", "a", "192.0.2.9"), newSlice("api", "b", "192.0.2.2")) // no resurrection
	f.relist(kindSlice, newSlice("api", "a", "192.0.2.9"), newSlice("api", "b", "192.0.2.2"))
	assert.Equal(t, before, f.sink.count())
	f.set(newService("api"))
	f.wantText("shop/api [a 192.0.2.9][b 192.0.2.2]")
	f.delete(newSlice("api", "a"), newSlice("api", "b"))
	f.wantText("shop/api ")
}

func TestSliceMovesToAnotherService(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newService("web"), newSlice("api", "a", "192.0.2.1"))
	f.set(newSlice("web", "a", "192.0.2.1"))
	f.wantText("shop/api ", "shop/web [a 192.0.2.1]")
	unlabelled := newSlice("web", "a", "192.0.2.1")
	unlabelled.Labels = nil
	f.set(unlabelled)
	f.wantText("shop/api ", "shop/web ")
	f.set(newSlice("api", "a", "192.0.2.1"))
	f.wantText("shop/api [a 192.0.2.1]", "shop/web ")
}

// CASES C80: one log line, the IPv4 slice beside it is served; not counted as bad.
func TestFQDNSliceIsSkippedWithOneLogLine(t *testing.T) {
	fqdn := newSlice("api", "b", "db.example.com")
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	f := newFixture(t).listed(newService("api"), newSlice("api", "a", "192.0.2.1"), fqdn)
	f.set(fqdn)
	f.relist(kindSlice, newSlice("api", "a", "192.0.2.1"), fqdn)
	f.wantText("shop/api [a 192.0.2.1]")
	assert.Equal(t, 1, f.logs.count("FQDN"))
	assert.Zero(t, f.sink.status().Skipped)
	f.delete(fqdn)
	assert.Empty(t, f.table.kinds[kindSlice].notes)
}

// CASES C56: logged once, however often the slice comes.
func TestBadHostnameIsLoggedOnce(t *testing.T) {
	s := newSlice("api", "a", "192.0.2.1")
	s.Endpoints[0].Hostname = ptr("test.host")
	f := newFixture(t).listed(newService("api"), s)
	f.set(s, s)
	f.relist(kindSlice, s)
	f.wantText("shop/api [a 192.0.2.1]")
	assert.Equal(t, 1, f.logs.count("test.host"))
	f.set(newSlice("api", "a", "192.0.2.1")) // mended
	f.set(s)
	assert.Equal(t, 2, f.logs.count("test.host"))
}

// CASES C101: a bad object is skipped and counted, what was known of it stays, and the
// others live on.
func TestBadObjectsAreSkippedAndCounted(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newService("Bad_Name"), newSlice("api", "a", "192.0.2.1"))
	f.wantText("shop/api [a 192.0.2.1]")
	assert.Equal(t, 1, f.sink.status().Skipped)
	assert.Contains(t, f.sink.status().LastSkip, "shop/Bad_Name")

	bad := &object{kind: kindSlice, key: key{"shop", "a"}, bad: true, complaint: "cannot be read: boom"}
	f.table.apply(bad)
	f.table.replace(kindSlice, []*object{bad})
	f.wantText("shop/api [a 192.0.2.1]")
	assert.Equal(t, 2, f.sink.status().Skipped)
	f.set(newSlice("api", "a", "192.0.2.2"))
	f.wantText("shop/api [a 192.0.2.2]")
	assert.Equal(t, 1, f.sink.status().Skipped)
	f.delete(newService("Bad_Name"))
	assert.Zero(t, f.sink.status().Skipped)
}

// CASES C101 and "C100–C103": tombstones, with and without a last state, and rubbish.
func TestTombstones(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newService("web"), newSlice("api", "a", "192.0.2.1"))
	require.NoError(t, f.store[kindService].Delete(cache.DeletedFinalStateUnknown{Key: "shop/api"}))
	require.NoError(t, f.store[kindService].Delete(cache.DeletedFinalStateUnknown{Key: "shop/web", Obj: newService("web")}))
	require.NoError(t, f.store[kindSlice].Delete(cache.DeletedFinalStateUnknown{Key: "shop/a"}))
	require.NoError(t, f.store[kindSlice].Delete(cache.DeletedFinalStateUnknown{Key: "shop/unknown"}))
	require.NoError(t, f.store[kindSlice].Delete(cache.DeletedFinalStateUnknown{Key: "nowhere/unknown"}))
	f.wantText()
	assert.Empty(t, f.table.namespaces, "nothing is left behind")
	assert.Error(t, f.store[kindService].Delete(cache.DeletedFinalStateUnknown{Key: "a/b/c"}))
	assert.Error(t, f.store[kindService].Delete("no object"))
}

func TestRelistPushesOnlyWhatChanged(t *testing.T) {
	f := newFixture(t).listed(newService("a"), newService("b"), newService("c"),
		newSlice("a", "a-1", "192.0.2.1"), newSlice("a", "a-2", "192.0.2.2"), newSlice("b", "b-1", "192.0.2.3"))
	before := f.sink.count()
	f.relist(kindService, newService("a"), newService("c"), newService("d"))
	assert.Equal(t, before+2, f.sink.count(), "b went, d came")
	f.wantText("shop/a [a-1 192.0.2.1][a-2 192.0.2.2]", "shop/c ", "shop/d ")
	before = f.sink.count()
	f.relist(kindSlice, newSlice("a", "a-1", "192.0.2.9"), newSlice("a", "a-3", "192.0.2.4"))
	assert.Equal(t, before+1, f.sink.count(), "three changes of one service are one update")
	f.wantText("shop/a [a-1 192.0.2.9][a-3 192.0.2.4]", "shop/c ", "shop/d ")
}

func services(n int) (list []metav1.Object) {
	for i := range n {
		list = append(list, newService(fmt.Sprint("s", i)))
	}
	return list
}

// FAULTS 6.
func TestShrunkenListIsDoubted(t *testing.T) {
	tests := []struct {
		name     string
		had, has int
		doubted  bool
	}{
		{"empty", 3, 0, true},
		{"the only one", 1, 0, true},
		{"more than half and more than 10", 30, 14, true},
		{"half", 30, 15, false},
		{"not more than 10", 15, 5, false},
		{"more", 3, 9, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t).listed(services(tc.had)...)
				f.relist(kindService, services(tc.has)...)
				if !tc.doubted {
					assert.Equal(t, tc.has, f.sink.size())
					assert.Empty(t, f.sink.status().Error)
					return
				}
				assert.Equal(t, tc.had, f.sink.size())
				assert.Contains(t, f.sink.status().Error, fmt.Sprintf("list of services lacks %d of %d", tc.had-tc.has, tc.had))
				time.Sleep(59 * time.Second)
				synctest.Wait()
				assert.Equal(t, tc.had, f.sink.size())
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Equal(t, tc.has, f.sink.size())
				assert.Empty(t, f.sink.status().Error)
			})
		})
	}
}

func TestShrunkenListOfSlicesIsDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).listed(newService("api"), newSlice("api", "a", "192.0.2.1"))
		f.relist(kindSlice)
		f.wantText("shop/api [a 192.0.2.1]")
		assert.Contains(t, f.sink.status().Error, "list of endpointslices lacks 1 of 1")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		f.wantText("shop/api ")
	})
}

func TestDoubtEndsWhenTheObjectsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).listed(services(30)...)
		before := f.sink.count()
		f.relist(kindService)
		time.Sleep(30 * time.Second)
		f.relist(kindService, services(3)...) // still doubted; the time goes on
		f.relist(kindService, services(30)...)
		assert.Empty(t, f.sink.status().Error)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, before, f.sink.count(), "nothing was ever pushed")
	})
}

func TestDoubtKeepsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).listed(services(30)...)
		f.relist(kindService)
		time.Sleep(50 * time.Second)
		f.relist(kindService)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		f.wantText()
	})
}

func TestNamedNewsEndsDoubtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).listed(services(3)...)
		f.relist(kindService)
		f.delete(newService("s0")) // believed at once
		f.wantText("shop/s1 ", "shop/s2 ")
		f.set(newService("s1")) // there after all
		time.Sleep(61 * time.Second)
		synctest.Wait()
		f.wantText("shop/s1 ")
		f.relist(kindService)
		f.delete(newService("s1"))
		assert.Empty(t, f.sink.status().Error, "nothing is left to doubt")
	})
}

func TestDoubtedListStillAdds(t *testing.T) {
	f := newFixture(t).listed(services(20)...)
	f.relist(kindService, newService("new"))
	assert.NotEmpty(t, f.sink.service("shop/new"))
	assert.Equal(t, 21, f.sink.size())
}

// FAULTS 12 for one source: random events in random order, lists in between, end in what
// a table made of the final objects has, and nothing that was pushed has ever changed.
func TestEventsEndInWhatARebuildGives(t *testing.T) {
	for seed := range 2000 {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		f := newFixture(t)
		f.table.guard = 0
		if seed%2 == 1 { // most keys clash
			f.table.byName.mask, f.table.bySlice.mask = 1, 1
		}
		world := newWorld(random)
		for range random.IntN(4) {
			world.step(f)
		}
		f.relist(kindService, world.objects()...)
		for range random.IntN(4) {
			world.step(f)
		}
		f.relist(kindSlice, world.objects()...)
		pushed := snapshots{}
		for range random.IntN(40) {
			world.step(f)
			pushed.keep(f.sink)
			if random.IntN(10) == 0 {
				f.relist(kind(random.IntN(int(numKinds))), world.objects()...)
			}
		}
		rebuilt := newFixture(t).listed(world.objects()...)
		require.Equal(t, rebuilt.sink.text(), f.sink.text(), "seed %d", seed)
		require.Equal(t, rebuilt.sink.values, f.sink.values, "seed %d", seed)
		pushed.check(t)
		counts := [numKinds]int{}
		for _, o := range world.objects() {
			counts[kindOf(o)]++
		}
		require.Equal(t, counts, [numKinds]int{f.table.kinds[0].count, f.table.kinds[1].count}, "seed %d", seed)
	}
}

// world is a small cluster that changes at random.
type world struct {
	random   *rand.Rand
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
}

func newWorld(random *rand.Rand) *world {
	return &world{random: random, services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{}}
}

// step changes one object and tells f.
func (w *world) step(f *fixture) {
	service := fmt.Sprint("s", w.random.IntN(3))
	slice := fmt.Sprint("e", w.random.IntN(5))
	switch w.random.IntN(5) {
	case 0, 1:
		addresses := []string{}
		for range w.random.IntN(3) {
			addresses = append(addresses, fmt.Sprint("192.0.2.", w.random.IntN(4)))
		}
		w.slices[slice] = newSlice(service, slice, addresses...)
		f.set(w.slices[slice])
	case 2:
		f.delete(newSlice(service, slice))
		delete(w.slices, slice)
	case 3:
		w.services[service] = newService(service, func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(80 + w.random.IntN(2)) })
		f.set(w.services[service])
	case 4:
		f.delete(newService(service))
		delete(w.services, service)
	}
}

func (w *world) objects() (list []metav1.Object) {
	for _, s := range w.services {
		list = append(list, s)
	}
	for _, s := range w.slices {
		list = append(list, s)
	}
	return list
}

// snapshots are pushed values beside their text when they were pushed.
type snapshots map[sources.Service]string

func (s snapshots) keep(from *sink) {
	for _, v := range from.values {
		if _, had := s[v]; !had {
			s[v] = describe(v)
		}
	}
}

func (s snapshots) check(t *testing.T) {
	t.Helper()
	for v, text := range s {
		require.Equal(t, text, describe(v), "a pushed value has changed")
		require.True(t, slices.IsSortedFunc(v.AppendSlices(nil), func(a, b sources.Slice) int {
			return strings.Compare(a.Name(), b.Name())
		}))
	}
}

func TestShareTakesTheHeldSlice(t *testing.T) {
	f := newFixture(t).listed(newService("api"), newSlice("api", "a", "192.0.2.1"))
	held := f.sink.slice("shop/api", 0)
	isHeld := func(s *discoveryv1.EndpointSlice) bool {
		return unsafe.StringData(string(held)) == unsafe.StringData(string(f.store[kindSlice].compact(s).slice))
	}
	assert.True(t, isHeld(newSlice("api", "a", "192.0.2.1")))
	assert.False(t, isHeld(newSlice("api", "a", "192.0.2.2")))
	assert.False(t, isHeld(newSlice("other", "a", "192.0.2.1")))
	assert.NotEmpty(t, f.store[kindSlice].compact(newSlice("api", "b", "192.0.2.1")).slice)
}

func TestTableIsSilentAfterClose(t *testing.T) {
	f := newFixture(t).listed(newService("api"))
	f.table.close()
	before := f.sink.count()
	f.set(newService("web"))
	assert.Equal(t, before, f.sink.count())
}
