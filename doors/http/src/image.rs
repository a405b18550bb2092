//! Images: NTNDArrays as PNG and JPEG.

use jpeg_encoder::{ColorType, Encoder};
use pvwire_schema::types::{Array, Node, NodeValue, ValueType};

/// Quality of JPEGs, from 1 to 100.
const QUALITY: u8 = 80;

/// Colours of a pixel in a colour image.
const COLOURS: usize = 3;

/// A value that can't be shown as an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It is another structure.
    #[error("the PV is not an image (NTNDArray)")]
    NoImage,
    /// Its elements are compressed.
    #[error("images compressed by {0:?} can't be converted: switch the compression off at the IOC")]
    Compressed(String),
    /// Its elements are neither 8 nor 16 bits long.
    #[error("elements of type {0:?} can't be converted: expected integers of 8 or 16 bits")]
    BadElements(ValueType),
    /// Its colour mode or its dimensions are unknown.
    #[error(
        "{0} dimensions with colour mode {1} can't be converted: expected mono, RGB1, RGB2 or RGB3"
    )]
    BadLayout(usize, i64),
    /// It has fewer elements than its dimensions say, or none.
    #[error("the image has {0} elements, and its dimensions say {1}")]
    BadSize(usize, usize),
    /// A side is too long for JPEG.
    #[error("{0} pixels are too many for a side of a JPEG: ask for the PNG")]
    TooLong(usize),
    /// The encoder failed.
    #[error("the image can't be encoded: {0}")]
    Png(#[from] png::EncodingError),
    /// The encoder failed.
    #[error("the image can't be encoded: {0}")]
    Jpeg(#[from] jpeg_encoder::EncodingError),
}

/// An image: rows from the top, pixels from the left, colours next to each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    is_colour: bool,
    samples: Samples,
}

#[derive(Debug, PartialEq, Eq)]
enum Samples {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

/// Distances of elements in an NTNDArray: from pixel to pixel, row to row, colour to colour.
struct Layout {
    width: usize,
    height: usize,
    steps: [usize; 3],
    is_colour: bool,
}

impl Image {
    /// The image in an NTNDArray.
    ///
    /// # Errors
    /// When it isn't one that can be shown.
    pub fn of(node: &Node) -> Result<Self, ImageError> {
        let fields = fields(node).ok_or(ImageError::NoImage)?;
        if !node.type_id.starts_with("epics:nt/NTNDArray:") {
            return Err(ImageError::NoImage);
        }
        let codec = find(fields, "codec").and_then(|codec| find(self::fields(codec)?, "name"));
        if let Some(NodeValue::Text(name)) = codec.map(|name| &name.value)
            && !name.is_empty()
        {
            return Err(ImageError::Compressed(name.clone()));
        }
        let elements = find(fields, "value")
            .and_then(elements)
            .ok_or(ImageError::NoImage)?;
        let layout = layout(fields)?;
        let colours = if layout.is_colour { COLOURS } else { 1 };
        let count = [layout.width, layout.height, colours]
            .into_iter()
            .try_fold(1, usize::checked_mul);
        let count = count.unwrap_or(usize::MAX);
        let size = elements.value_type.element_bytes().unwrap_or(1);
        let held = (elements.count as usize).min(elements.data.len() / size);
        if count == 0 || held < count {
            return Err(ImageError::BadSize(held, count));
        }
        let bytes = &elements.data;
        let words = || bytes.as_chunks::<2>().0;
        let samples = match elements.value_type {
            ValueType::UInt8 => Samples::Bytes(layout.arranged(|at| bytes[at])),
            // Signed elements are shifted, so that the smallest is black.
            ValueType::Int8 => Samples::Bytes(layout.arranged(|at| bytes[at] ^ 0x80)),
            ValueType::UInt16 => {
                Samples::Words(layout.arranged(|at| u16::from_le_bytes(words()[at])))
            }
            ValueType::Int16 => {
                Samples::Words(layout.arranged(|at| u16::from_le_bytes(words()[at]) ^ 0x8000))
            }
            other => return Err(ImageError::BadElements(other)),
        };
        Ok(Self {
            width: layout.width,
            height: layout.height,
            is_colour: layout.is_colour,
            samples,
        })
    }

    /// The bytes of a value's elements; 0 if it is no image.
    #[must_use]
    pub fn element_bytes(node: &Node) -> usize {
        let elements = fields(node)
            .and_then(|fields| find(fields, "value"))
            .and_then(elements);
        elements.map_or(0, |elements| elements.data.len())
    }

    /// The image as PNG with all its bits.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn png(&self) -> Result<Vec<u8>, ImageError> {
        let mut out = Vec::new();
        let (width, height) = (self.width as u32, self.height as u32);
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(if self.is_colour {
            png::ColorType::Rgb
        } else {
            png::ColorType::Grayscale
        });
        encoder.set_compression(png::Compression::Fast);
        let bytes = match &self.samples {
            Samples::Bytes(bytes) => {
                encoder.set_depth(png::BitDepth::Eight);
                encoder.write_header()?.write_image_data(bytes)?;
                return Ok(out);
            }
            Samples::Words(words) => words
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<_>>(),
        };
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.write_header()?.write_image_data(&bytes)?;
        Ok(out)
    }

    /// The image as JPEG, dark and crossed out: the PV's server can't be reached or doesn't respond, so that it may
    /// show something else by now.
    ///
    /// # Errors
    /// When a side is longer than 65,535 pixels.
    pub fn outdated_jpeg(&self) -> Result<Vec<u8>, ImageError> {
        let mut bytes = match &self.samples {
            Samples::Bytes(bytes) => bytes.clone(),
            Samples::Words(words) => scaled_to_bytes(words),
        };
        for byte in &mut bytes {
            *byte /= 3;
        }
        let colours = if self.is_colour { COLOURS } else { 1 };
        let (width, height) = (self.width, self.height);
        // The lines are a fiftieth of the image wide.
        let half = (width / 100).max(1);
        for y in 0..height {
            let middle = y * width / height;
            for middle in [middle, width - 1 - middle] {
                let line = middle.saturating_sub(half)..(middle + half + 1).min(width);
                let row = y * width;
                bytes[(row + line.start) * colours..(row + line.end) * colours].fill(u8::MAX);
            }
        }
        let samples = Samples::Bytes(bytes);
        Self { samples, ..*self }.jpeg()
    }

    /// The image as JPEG. Samples of 16 bits are scaled, so that the darkest is black and the brightest is white.
    ///
    /// # Errors
    /// When a side is longer than 65,535 pixels.
    pub fn jpeg(&self) -> Result<Vec<u8>, ImageError> {
        let side = |pixels: usize| u16::try_from(pixels).map_err(|_| ImageError::TooLong(pixels));
        let (width, height) = (side(self.width)?, side(self.height)?);
        let scaled;
        let bytes = match &self.samples {
            Samples::Bytes(bytes) => bytes,
            Samples::Words(words) => {
                scaled = scaled_to_bytes(words);
                &scaled
            }
        };
        let mut out = Vec::new();
        let colours = if self.is_colour {
            ColorType::Rgb
        } else {
            ColorType::Luma
        };
        Encoder::new(&mut out, QUALITY).encode(bytes, width, height, colours)?;
        Ok(out)
    }
}

fn scaled_to_bytes(words: &[u16]) -> Vec<u8> {
    let low = words.iter().copied().min().unwrap_or(0);
    let high = words.iter().copied().max().unwrap_or(0);
    let span = u32::from(high - low).max(1);
    let scaled = words
        .iter()
        .map(|word| (u32::from(word - low) * 255 / span) as u8);
    scaled.collect()
}

impl Layout {
    /// The elements in the order of rows, pixels and colours.
    fn arranged<T>(&self, element: impl Fn(usize) -> T) -> Vec<T> {
        let colours = if self.is_colour { COLOURS } else { 1 };
        let [pixel, row, colour] = self.steps;
        let mut out = Vec::with_capacity(self.width * self.height * colours);
        for y in 0..self.height {
            for x in 0..self.width {
                out.extend((0..colours).map(|c| element(y * row + x * pixel + c * colour)));
            }
        }
        out
    }
}

fn fields(node: &Node) -> Option<&[Node]> {
    match &node.value {
        NodeValue::Structure(fields) => Some(fields),
        NodeValue::Any(Some(held)) => fields(held),
        _ => None,
    }
}

fn find<'a>(nodes: &'a [Node], name: &str) -> Option<&'a Node> {
    nodes.iter().find(|node| node.name == name)
}

fn elements(node: &Node) -> Option<&Array> {
    match &node.value {
        NodeValue::Array(array) => Some(array),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => elements(held),
        _ => None,
    }
}

fn integer(node: &Node) -> Option<i64> {
    match &node.value {
        NodeValue::Number(_, number) => Some(*number as i64),
        NodeValue::Int64(number) => Some(*number),
        NodeValue::UInt64(number) => i64::try_from(*number).ok(),
        NodeValue::Any(Some(held)) => integer(held),
        _ => None,
    }
}

fn list<'a>(fields: &'a [Node], name: &str) -> &'a [Node] {
    match find(fields, name).map(|node| &node.value) {
        Some(NodeValue::StructureArray(list)) => list,
        _ => &[],
    }
}

/// The attribute that says how colours are arranged.
fn colour_mode(image: &[Node]) -> Option<i64> {
    let is_mode = |attribute: &&Node| {
        let name = fields(attribute).and_then(|fields| find(fields, "name"));
        name.is_some_and(|name| name.value == NodeValue::Text("ColorMode".to_owned()))
    };
    let attribute = list(image, "attribute").iter().find(is_mode)?;
    integer(find(fields(attribute)?, "value")?)
}

fn layout(image: &[Node]) -> Result<Layout, ImageError> {
    let size = |dimension: &Node| {
        let size = find(fields(dimension)?, "size").and_then(integer)?;
        usize::try_from(size).ok()
    };
    let sizes: Option<Vec<usize>> = list(image, "dimension").iter().map(size).collect();
    let sizes = sizes.unwrap_or_default();
    let mode = colour_mode(image);
    // Without the attribute the dimension of three elements is that of the colours.
    let of_colours = |at: usize| sizes.get(at) == Some(&COLOURS);
    let guessed = || (0..3).find(|at| of_colours(*at)).map(|at| at as i64 + 2);
    let is_deep = sizes.len() == 3;
    match (&sizes[..], mode.or_else(|| is_deep.then(guessed).flatten())) {
        ([width, height], None | Some(0)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, *width, 0],
            is_colour: false,
        }),
        ([COLOURS, width, height], Some(2)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [COLOURS, COLOURS.saturating_mul(*width), 1],
            is_colour: true,
        }),
        ([width, COLOURS, height], Some(3)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, COLOURS.saturating_mul(*width), *width],
            is_colour: true,
        }),
        ([width, height, COLOURS], Some(4)) => Ok(Layout {
            width: *width,
            height: *height,
            steps: [1, *width, width.saturating_mul(*height)],
            is_colour: true,
        }),
        _ => Err(ImageError::BadLayout(sizes.len(), mode.unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests;
