# A formula for a tap of Homebrew on Linux. packaging/build.sh fills in the version, the address and the SHA-256.
class Auricle < Formula
  desc "Speech to text, and text to speech, on your own machine"
  homepage "@DOWNLOADS@"
  url "@DOWNLOADS@/auricle-@VERSION@-@MACHINE@-linux.tar.zst"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "zstd" => :build
  depends_on :linux

  def install
    bin.install "bin/auricle"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/auricle"
    zsh_completion.install "share/zsh/site-functions/_auricle"
    fish_completion.install "share/fish/vendor_completions.d/auricle.fish"
    doc.install Dir["share/doc/auricle/*"]
  end

  service do
    run [opt_bin/"auricle", "serve", "--data", var/"auricle"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/auricle --version")
  end
end
