package keyring

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"holdfast.dev/holdfast/internal/fault"
)

// The sealed form: one format byte, then the segments of Tink's AES-256-GCM-HKDF streaming AEAD, in which is one
// zstd frame. Another format byte is another form; this one is never reinterpreted.
const (
	sealFormat = 1
	// segmentBytes was measured: larger segments make a 10 KB document twice as expensive (each stream allocates
	// two of them) and gain nothing for large ones.
	segmentBytes = 16 << 10
	// windowBytes bounds the memory of one encoder; state documents compress no better with 4 MiB.
	windowBytes = 1 << 20
)

// Sealer compresses and seals streams, and opens them again. Its memory per stream is below 4 MiB whatever the
// stream's length. It is safe for concurrent use.
type Sealer struct {
	encoders sync.Pool
	decoders sync.Pool
}

// NewSealer makes a Sealer.
func NewSealer() *Sealer { return &Sealer{} }

// Seal returns a writer that compresses, seals under key (32 bytes, used for nothing else) and writes to w. org and
// binding are what the bytes are bound to. Close ends the stream without closing w; without Close nothing can be
// opened. Abandon a failed stream with Discard.
func (s *Sealer) Seal(key []byte, org, binding string, w io.Writer) (*SealWriter, error) {
	stream, err := newStream(key)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte{sealFormat}); err != nil {
		return nil, err
	}
	sealing, err := stream.NewEncryptingWriter(w, bindingData(org, binding))
	if err != nil {
		return nil, fmt.Errorf("begin to seal: %w", err)
	}
	enc, err := s.encoder()
	if err != nil {
		return nil, err
	}
	enc.Reset(sealing)
	return &SealWriter{pool: &s.encoders, enc: enc, sealing: sealing}, nil
}

// SealWriter takes the plain bytes of one stream.
type SealWriter struct {
	pool    *sync.Pool
	enc     *zstd.Encoder
	sealing io.WriteCloser
}

var errEnded = errors.New("the sealed stream has ended")

// Write takes plain bytes.
func (w *SealWriter) Write(p []byte) (int, error) {
	if w.enc == nil {
		return 0, errEnded
	}
	return w.enc.Write(p)
}

// Close seals what is left and ends the stream.
func (w *SealWriter) Close() error {
	if w.enc == nil {
		return errEnded
	}
	err := w.enc.Close()
	w.Discard()
	if err != nil {
		return err
	}
	return w.sealing.Close()
}

// Discard gives the stream's memory back. After Close it does nothing.
func (w *SealWriter) Discard() {
	if w.enc == nil {
		return
	}
	w.enc.Reset(nil)
	w.pool.Put(w.enc)
	w.enc = nil
}

// Open returns a reader of the plain bytes of what Seal wrote to r, with the same key and binding. A stream that was
// changed, cut, reordered or belongs elsewhere ends in an error with the code sealed_damaged; io.EOF comes only when
// the stream was whole. Close gives its memory back.
func (s *Sealer) Open(key []byte, org, binding string, r io.Reader) (io.ReadCloser, error) {
	stream, err := newStream(key)
	if err != nil {
		return nil, err
	}
	var format [1]byte
	if _, err := io.ReadFull(r, format[:]); err != nil {
		return nil, damaged(err)
	}
	if format[0] != sealFormat {
		return nil, damaged(fmt.Errorf("its format is %d, known is %d", format[0], sealFormat))
	}
	opening, err := stream.NewDecryptingReader(r, bindingData(org, binding))
	if err != nil {
		return nil, damaged(err)
	}
	dec, err := s.decoder()
	if err != nil {
		return nil, err
	}
	o := &openReader{pool: &s.decoders, dec: dec, opening: opening}
	if err := dec.Reset(opening); err != nil {
		return nil, errors.Join(damaged(err), o.Close())
	}
	return o, nil
}

type openReader struct {
	pool    *sync.Pool
	dec     *zstd.Decoder
	opening io.Reader
}

func (o *openReader) Read(p []byte) (int, error) {
	if o.dec == nil {
		return 0, errEnded
	}
	n, err := o.dec.Read(p)
	if err == nil || errors.Is(err, io.EOF) && n > 0 {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		return n, damaged(err)
	}
	return 0, io.EOF // the decompressor gives it when the sealed stream has ended, in its last segment
}

func (o *openReader) Close() error {
	if o.dec == nil {
		return nil
	}
	err := o.dec.Reset(nil)
	o.pool.Put(o.dec)
	o.dec = nil
	return err
}

// damaged leaves errors alone that have a public side already: they are the source's, not the stream's.
func damaged(err error) error {
	if fault.Code(err) != "" {
		return err
	}
	return fault.Wrap(err, fault.Internal, "sealed_damaged", "The stored bytes are damaged or belong elsewhere.").
		WithHint("Restore them from a backup of the database.")
}

func newStream(key []byte) (*subtle.AESGCMHKDF, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("a data key of %d bytes, it needs %d", len(key), KeyBytes)
	}
	s, err := subtle.NewAESGCMHKDF(key, "SHA256", KeyBytes, segmentBytes, 1)
	if err != nil {
		return nil, fmt.Errorf("set up sealing: %w", err)
	}
	return s, nil
}

func (s *Sealer) encoder() (*zstd.Encoder, error) {
	if e, ok := s.encoders.Get().(*zstd.Encoder); ok {
		return e, nil
	}
	// The AEAD and the document's SHA-256 make zstd's own checksum superfluous.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return e, nil
}

func (s *Sealer) decoder() (*zstd.Decoder, error) {
	if d, ok := s.decoders.Get().(*zstd.Decoder); ok {
		return d, nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes))
	if err != nil {
		return nil, fmt.Errorf("set up decompression: %w", err)
	}
	return d, nil
}
