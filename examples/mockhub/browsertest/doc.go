// Package browsertest drives the page of examples/mockhub in a real browser. It
// is a module of its own, so that the SDK does not depend on what it needs.
//
// .ci/browser runs it, and installs Debian's Chromium where there is no browser.
// With -screenshots and a folder it leaves a picture of every state it looks
// at: approved-light-1280.png is the one in the README.
package browsertest
