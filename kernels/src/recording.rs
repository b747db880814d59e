//! Launches that are recorded once and repeated with other inputs, as steps of the same shapes cost the host most of their time on a GPU.
//!
//! On wgpu each launch is encoded again, but all that leads to it (shapes, memory, bindings) is done. The CPU records nothing.

use burn::tensor::{Int, Tensor};

/// A recorded sequence of launches, and the tensors that it reads its input from and writes its output to.
pub struct Recording<T> {
    #[cfg(feature = "wgpu")]
    graph: kernel::RecordedGraph,
    output: T,
}

impl<T> Recording<T> {
    /// Records what `work` launches with `input`: it runs once for real, to compile kernels and allocate memory, and once for the record.
    /// None if the device does not record, or not this: `work` may upload nothing and read nothing back.
    ///
    /// Tensors that `work` reads besides, and changes in place, are to live as long as the recording: their memory stays reserved, but
    /// a repetition would read and change nothing that anybody sees.
    pub fn new(input: Tensor<1, Int>, mut work: impl FnMut(Tensor<1, Int>) -> T) -> Option<Self> {
        #[cfg(feature = "wgpu")]
        {
            let (graph, output) = kernel::record(input, &mut work)?;
            Some(Self { graph, output })
        }
        #[cfg(not(feature = "wgpu"))]
        {
            let _ = (input, &mut work);
            None
        }
    }

    /// Writes `values` to the beginning of the input, launches all again and returns the output, which the next repetition overwrites.
    ///
    /// # Errors
    /// The device's message if it failed.
    ///
    /// # Panics
    /// When there are more values than the input has.
    pub fn repeat(&self, values: Vec<i32>) -> Result<&T, String> {
        #[cfg(feature = "wgpu")]
        self.graph.repeat(values)?;
        #[cfg(not(feature = "wgpu"))]
        let _ = values;
        Ok(&self.output)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::Cube;
    use burn::tensor::{Int, Tensor};
    use cubecl::bytes::Bytes;
    use cubecl::client::{Client, Graph};
    use cubecl::server::Handle;

    pub(super) struct RecordedGraph {
        graph: Graph,
        /// On the stream of the recording.
        client: Client,
        input: Handle,
        room: usize,
    }

    pub(super) fn record<T>(
        input: Tensor<1, Int>,
        work: &mut impl FnMut(Tensor<1, Int>) -> T,
    ) -> Option<(RecordedGraph, T)> {
        let room = input.dims()[0];
        let primitive = input.clone().try_into_primitive::<Cube>().ok()?;
        let mut client = primitive.client.clone();
        // SAFETY: the stream is that of this thread, which the launches of `work` go to as well.
        unsafe { client.set_stream(primitive.handle.stream) };
        client.graph_prepare().ok()?;
        drop(work(input.clone()));
        let output = client.start_capture().ok().map(|()| work(input));
        // Also ends a recording that did not begin.
        let graph = client.stop_capture().ok();
        let recorded = RecordedGraph { graph: graph?, client, input: primitive.handle, room };
        Some((recorded, output?))
    }

    impl RecordedGraph {
        pub(super) fn repeat(&self, values: Vec<i32>) -> Result<(), String> {
            assert!(values.len() <= self.room, "recording: more values than the input has");
            self.client.write(&self.input, Bytes::from_elems(values));
            // SAFETY: the memory of all tensors that the launches touch stays reserved while the graph lives, those of the input and the
            // output are alive, and the client writes on the stream of the recording.
            unsafe { self.graph.replay() }.map_err(|error| error.to_string())
        }
    }
}
