// Package link is what the broker and the worker say to each other: JSON messages in length-prefixed frames over a Unix
// socket, one connection per attempt, with the peer's user checked by the kernel. Either side treats the other as
// hostile: sizes are bounded before memory is taken, and a message that is not exactly one known thing is an error.
package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the most bytes of one frame's body. The largest message is a reduced plan.
const MaxFrame = 16 << 20

// headerBytes is the length prefix: 32 bits, big-endian.
const headerBytes = 4

// ErrFrame is wrapped by every error about the frames themselves. After one the stream has no known position any more,
// so the connection is to be closed.
var ErrFrame = errors.New("malformed frame")

// writeFrame writes one frame with a single write.
func writeFrame(w io.Writer, body []byte) error {
	if len(body) == 0 || len(body) > MaxFrame {
		return fmt.Errorf("%w: %d bytes to send, 1 to %d are allowed", ErrFrame, len(body), MaxFrame)
	}
	frame := make([]byte, headerBytes, headerBytes+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body))) //nolint:gosec // bounded by MaxFrame above
	_, err := w.Write(append(frame, body...))
	return err
}

// readFrame reads one frame. A clean end between frames is io.EOF; an end inside one is io.ErrUnexpectedEOF. Memory
// grows with what has arrived, not with what the prefix claims.
func readFrame(r io.Reader) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size == 0 || size > MaxFrame {
		return nil, fmt.Errorf("%w: it claims %d bytes, 1 to %d are allowed", ErrFrame, size, MaxFrame)
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, r, size)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read a frame, %d of %d bytes: %w", n, size, err)
	}
	return body.Bytes(), nil
}
