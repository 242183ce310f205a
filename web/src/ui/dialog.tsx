import { Modal } from "@mantine/core";
import type { ReactNode } from "react";

/**
 * A question over the page. Mantine's own would mark its heading as a second banner of the page, and would lock
 * scrolling with a style element, which the content security policy forbids; theme.css does that instead.
 */
export function Dialog({
  title,
  close,
  wide,
  keep,
  children,
}: {
  title: string;
  close: () => void;
  wide?: boolean;
  /** A click beside it does not close it: what it shows is shown once. */
  keep?: boolean;
  children: ReactNode;
}) {
  return (
    <Modal.Root
      opened
      onClose={close}
      size={wide ? "lg" : "md"}
      centered
      lockScroll={false}
      closeOnClickOutside={!keep}
      transitionProps={{ duration: 80 }}
    >
      <Modal.Overlay />
      <Modal.Content>
        <Modal.Header role="presentation">
          <Modal.Title>{title}</Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </Modal.Header>
        <Modal.Body>{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
