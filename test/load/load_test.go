package load_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/app"
	"holdfast.dev/holdfast/internal/config"
	"holdfast.dev/holdfast/internal/state"
	"holdfast.dev/holdfast/internal/testkit/pgtest"
	"holdfast.dev/holdfast/test/load"
)

const token = "the-administrator-of-these-tests-0123456789"

// start runs a server in this process.
func start(t testing.TB, database string) load.Server {
	t.Helper()
	environ := []string{
		"HOLDFAST_LISTEN_ADDR=127.0.0.1:0", "HOLDFAST_DATA_DIR=" + t.TempDir(), "HOLDFAST_BOOTSTRAP_TOKEN=" + token,
		"HOLDFAST_TF_STATE_ENCRYPTION_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "HOLDFAST_TF_STATE_MAX_BYTES=134217728",
	}
	if database != "" {
		environ = append(environ, "HOLDFAST_DATABASE_URL="+database)
	}
	settings, _, err := config.LoadServer(environ)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Config{Settings: settings, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return load.Server{URL: "http://" + a.Addr(), Token: token}
}

func onEachDatabase(t *testing.T, test func(t *testing.T, s load.Server, second func() load.Server)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		s := start(t, "")
		test(t, s, func() load.Server { return s }) // one server alone can have a SQLite file
	})
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.New(t)
		test(t, start(t, database), func() load.Server { return start(t, database) })
	})
}

func TestCycles(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s load.Server, _ func() load.Server) {
		for name, c := range map[string]load.Cycles{
			"small":        {Workers: 4, Each: 10, Size: 10 << 10},
			"saves":        {Workers: 2, Each: 3, Size: 1 << 10, Posts: 4},
			"large":        {Workers: 1, Each: 2, Size: 4 << 20},
			"non-latin":    {Workers: 1, Each: 2, Size: 2 << 20, Content: load.NonLatin},
			"incompressed": {Workers: 1, Each: 2, Size: 2 << 20, Content: load.Incompressible},
		} {
			c.Name = name
			r, err := load.Run(t.Context(), s, c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r.Cycles != c.Workers*c.Each || r.Quantile("POST", 0.5) <= 0 || len(r.Times["POST"]) != r.Cycles*max(c.Posts, 1) {
				t.Errorf("%s: %d cycles, %d posts", name, r.Cycles, len(r.Times["POST"]))
			}
		}
	})
}

// Two servers on one database where the database can have two.
func TestContention(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s load.Server, second func() load.Server) {
		if _, err := load.Contend(t.Context(), load.Contention{Name: "counter", Workers: 8, Rounds: 5, Late: true, Servers: []func() load.Server{load.At(s), load.At(second())}}); err != nil {
			t.Error(err)
		}
	})
}

// The driver itself notices a server that is wrong.
func TestRunChecksWhatIsRead(t *testing.T) {
	s := start(t, "")
	c := load.NewClient(s.URL, s.Token)
	defer c.Close()
	if err := c.Post(t.Context(), "net-0", "", load.Document(99, "someone-else", 100, load.Plain)); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Run(t.Context(), s, load.Cycles{Name: "net", Workers: 1, Each: 1, Size: 100}); err == nil {
		t.Error("a state of somebody else's went unnoticed")
	}
}

func TestDocument(t *testing.T) {
	for _, content := range []load.Content{load.Plain, load.NonLatin, load.Incompressible} {
		doc := load.Document(7, "lin", 100_000, content)
		if len(doc) < 100_000 || len(doc) > 120_000 {
			t.Errorf("%s: %d bytes, want about 100000", content, len(doc))
		}
		s := state.NewScanner()
		if _, err := s.Write(doc); err != nil {
			t.Fatalf("%s: %v", content, err)
		}
		if d, err := s.Finish(); err != nil || d.Serial.N != 7 || d.Lineage != "lin" {
			t.Errorf("%s: %+v, %v", content, d, err)
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	resident, peak, err := load.Memory(os.Getpid())
	if err != nil || resident <= 0 || peak < resident/2 {
		t.Errorf("Memory = %d, %d, %v", resident, peak, err)
	}
	before, err := load.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := before; now < before+20*time.Millisecond; {
		if now, err = load.CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkCycles(b *testing.B) {
	s := start(b, "")
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := load.Run(b.Context(), s, load.Cycles{Name: "bench", Workers: 4, Each: b.N/4 + 1, Size: 10 << 10}); err != nil {
		b.Fatal(err)
	}
}
